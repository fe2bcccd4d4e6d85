package experiment

import (
	"context"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods"
	"github.com/tacit-rec/tacit/param"
	"github.com/tacit-rec/tacit/sim"
)

// SelfTestDigest is the result of SelfTest on every platform. It changes only when the numerics of a
// method or of the engine change on purpose.
const SelfTestDigest = "c914fdfec96d138757baf499fd3ea4a7cbbb593fdb93e6487d1279dc560c9103"

// SelfTest runs PFedRec for three rounds on a small synthetic data set and returns a digest of the model.
func SelfTest(ctx context.Context) (string, error) {
	m := &methods.PFedRec{}
	param.Defaults(m)
	return digestOf(ctx, m, 3)
}

// digestOf trains a method on a small synthetic data set and returns a digest of the model.
func digestOf(ctx context.Context, m method.Method, rounds int) (string, error) {
	w, err := data.NewWorld(data.WorldConfig{Users: 60, Items: 300, MeanRows: 20, Seed: 1, Drift: 0.5})
	if err != nil {
		return "", err
	}
	p, err := data.ProtocolNamed("deployed")
	if err != nil {
		return "", err
	}
	split, err := data.NewSplit(w.Generate(), p, 1)
	if err != nil {
		return "", err
	}
	var o sim.Options
	param.Defaults(&o)
	o.Rounds = rounds
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
