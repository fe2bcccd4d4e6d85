package lab

import (
	"context"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/sim"
)

// SelfTestDigest is what SelfTest returns on every platform. It changes only
// when a method's or the engine's numbers are meant to change.
const SelfTestDigest = "8ab7ce4bedf5ce0f38038f2b6b4096158b409e609bf427cd50c11686fc402c08"

// SelfTest runs PFedRec on a small world for three rounds and returns the digest
// of all it has learnt.
func SelfTest(ctx context.Context) (string, error) {
	w, err := data.NewWorld(data.WorldConfig{Users: 60, Items: 300, MeanRows: 20, Seed: 1, Drift: 0.5})
	if err != nil {
		return "", err
	}
	p, err := data.ProtocolNamed("deployed")
	if err != nil {
		return "", err
	}
	split, err := data.NewSplit(w.Load(), p, 1)
	if err != nil {
		return "", err
	}
	m := &methods.PFedRec{}
	param.Defaults(m)
	var o sim.Options
	param.Defaults(&o)
	o.Rounds = 3
	r, err := sim.New(m, split, o, 1, 2)
	if err != nil {
		return "", err
	}
	for !r.Done() {
		if _, err := r.Step(ctx); err != nil {
			return "", err
		}
	}
	return r.Digest(), nil
}
