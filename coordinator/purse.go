package coordinator

import (
	"encoding/hex"
	"path/filepath"
	"slices"

	"github.com/tacit-rec/tacit/internal/engine/round"
	"github.com/tacit-rec/tacit/internal/store"
	"github.com/tacit-rec/tacit/privacy/account"
)

const ledgerFile = "ledger.jsonl"

// purse is the ledger as the rounds see it. What was paid for a release that a kill cut off
// before anybody saw it is there to be used, and a round is paid for once.
type purse struct {
	*round.Ledger
	unused []account.Event
}

// Spend takes what was paid already, or pays.
func (p *purse) Spend(e account.Event) error {
	if i := slices.Index(p.unused, e); i >= 0 {
		p.unused = slices.Delete(p.unused, i, i+1)
		return nil
	}
	return p.Ledger.Spend(e)
}

// Events are those that bought something.
func (p *purse) Events() []account.Event {
	if len(p.unused) == 0 {
		return p.Ledger.Events()
	}
	left := slices.Clone(p.unused)
	var out account.Spent
	for _, e := range p.Since(0) {
		if i := slices.Index(left, e); i >= 0 {
			left = slices.Delete(left, i, i+1)
		} else if err := out.Spend(e); err != nil {
			return p.Ledger.Events() // all of it is never too little
		}
	}
	return out.Events()
}

// openLedger opens the ledger of the run, which is on disk.
func (c *Coordinator) openLedger() (err error) {
	if !c.settings.DP.On() || c.ledger != nil {
		return nil
	}
	if c.ledger, err = round.OpenLedger(filepath.Join(c.opt.Dir, ledgerFile), hex.EncodeToString(c.run)); err != nil {
		return &store.Damage{Where: ledgerFile, What: err.Error(), Hint: "begin another run: tacit serve --state " +
			"ANOTHER-FOLDER"}
	}
	c.purse.Ledger = c.ledger
	return nil
}

// redeem finds what was paid since the newest version, and so for nothing yet.
func (c *Coordinator) redeem() {
	if !c.unreleased {
		return
	}
	for _, e := range c.ledger.Since(c.newest.Paid) {
		if !c.engine.Guard.IsMetric(e) {
			c.purse.unused = append(c.purse.unused, e)
		}
	}
}

// wholeOnes leaves out versions of which a repair has lost a part.
func (c *Coordinator) wholeOnes(all []*version) (out []*version, err error) {
	there := map[string]bool{"": true}
	for h := range c.st.Blobs() {
		there[hex.EncodeToString(h[:])] = true
	}
	for _, v := range all {
		parts := append([]string{v.Plan, v.Catalogue, v.Features, v.Came}, v.Values...)
		for _, m := range v.Rule {
			parts = append(parts, m.M, m.V)
		}
		if slices.ContainsFunc(parts, func(h string) bool { return !there[h] }) {
			if err := c.st.Delete(versionKey(v.Version)); err != nil {
				return nil, err
			}
			continue
		}
		out = append(out, v)
	}
	return out, nil
}
