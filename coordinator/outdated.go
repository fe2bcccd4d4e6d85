package coordinator

import (
	"cmp"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math"

	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/wire"
)

// A state folder may be older than what was released, because it was restored from a backup, or another
// copy of it may have released models. Devices know: they hold a newer model, or one of another privacy ledger. A
// claim alone changes nothing, since any device may lie; a manifest that this federation signed is a proof.
// If the proven ledger is not ours, nothing is released until the ledger is restored or the budget reset.
// Otherwise versions continue after the proven one.

// proof is a signed manifest that the state folder does not know.
type proof struct {
	Version     uint64 `json:"version"`
	Run         string `json:"run"`
	RunNumber   int    `json:"run_number"`
	Round       int    `json:"round"`
	Rollbacks   int    `json:"rollbacks"`
	LedgerLines int    `json:"ledger_lines"`
	LedgerHead  []byte `json:"ledger_head"`
	Period      int    `json:"budget_period"`
}

const proofKey = "proof"

// errInterrupted ends a round whose model devices have overtaken.
var errInterrupted = errors.New("devices hold a model that the state folder does not know")

// checkHeld compares the version and the ledger of the model that a device claims to have with those of the
// folder. It returns whether the device holds a model that the folder does not know, or is to show that it does.
func (c *Coordinator) checkHeld(r *pb.CheckInRequest) (news, show bool) {
	if r.ModelVersion <= c.models.Last() && c.knowsLedger(r.LedgerLines, r.LedgerHead) {
		return false, false
	}
	if r.Held == nil {
		return true, true
	}
	version, news := c.checkProof(r.Held)
	if !news && version != r.ModelVersion {
		c.progress.count("unproven_versions", 1)
	}
	return news, false
}

// checkProof returns the version of a manifest that this federation signed, 0 if it did not, and whether the folder
// does not know it; such a proof is kept.
func (c *Coordinator) checkProof(held *pb.SignedManifest) (version uint64, news bool) {
	m, err := wire.VerifyManifest(c.identity.key.Public().(ed25519.PublicKey), c.identity.id[:], held)
	if err != nil {
		return 0, false
	}
	p := proofOf(m)
	if news = c.isNews(p); news {
		c.noteProof(p)
	}
	return m.Version, news
}

func proofOf(m *pb.Manifest) *proof {
	return &proof{
		Version: m.Version, Run: fmt.Sprintf("%x", m.Run), RunNumber: int(m.RunNumber), Round: int(m.Round),
		Rollbacks: int(m.Rollbacks), LedgerLines: int(m.LedgerLines), LedgerHead: m.LedgerHead,
		Period: int(m.BudgetPeriod),
	}
}

// checkOwn takes the folder's newest version for a proof if its ledger is another one: it was replaced by that of
// another copy, and lacks what this folder has released.
func (c *Coordinator) checkOwn() error {
	m, err := c.manifest()
	if err != nil {
		return err
	}
	if p := proofOf(m); c.lacks(p) {
		return c.keepProof(p)
	}
	return nil
}

// knowsLedger reports whether the ledger is, or continues, the one of a model.
func (c *Coordinator) knowsLedger(lines uint64, head []byte) bool {
	return lines == 0 || lines < math.MaxInt && c.openLedger().HasHead(int(lines), head)
}

// isNews reports whether a proof shows what the folder does not know.
func (c *Coordinator) isNews(p *proof) bool { return p.Version > c.models.Last() || c.lacks(p) }

// lacks reports whether the ledger lacks lines that were written before the proven version was released. A
// ledger that grew by as many other lines lacks them too. A reset makes up for them: its budget period begins
// after that of the proven version. A ledger that says itself that it lost lines counts as spent until a reset.
func (c *Coordinator) lacks(p *proof) bool {
	ledger := c.openLedger()
	period, _ := ledger.Period()
	return period <= p.Period && !ledger.Lost() && !c.knowsLedger(uint64(p.LedgerLines), p.LedgerHead)
}

// exceeds reports whether a proof shows more than another one.
func (p *proof) exceeds(other *proof) bool {
	return other == nil || cmp.Or(cmp.Compare(p.Period, other.Period), cmp.Compare(p.LedgerLines, other.LedgerLines),
		cmp.Compare(p.Version, other.Version)) > 0
}

// noteProof keeps the proof that shows most, and interrupts the round in progress.
func (c *Coordinator) noteProof(p *proof) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !p.exceeds(c.shown) {
		return
	}
	c.shown = p
	if c.interrupt != nil {
		c.interrupt(errInterrupted)
	}
	c.requests.notify()
}

// takeProof acts on a proof that a device has shown since the last call.
func (c *Coordinator) takeProof() error {
	c.mu.Lock()
	p := c.shown
	c.shown = nil
	c.mu.Unlock()
	if p != nil && c.isNews(p) {
		if err := c.keepProof(p); err != nil {
			return err
		}
	}
	if c.proof == nil || c.outdated() {
		return nil
	}
	return c.forgetProof()
}

// keepProof keeps a proof on disk, unless the one there shows more.
func (c *Coordinator) keepProof(p *proof) error {
	if c.outdated() && !p.exceeds(c.proof) {
		return nil
	}
	if err := c.st.PutJSON(proofKey, p); err != nil {
		return err
	}
	c.proof = p
	ledger, err := c.ledgerOf(c.settings()) // a reset writes into it
	if err != nil {
		return err
	}
	c.setLedger(ledger)
	ledger.DropUnused()
	c.opt.Warn(c.describeProof())
	return nil
}

// outdated reports whether the ledger lacks lines of a proven version.
func (c *Coordinator) outdated() bool { return c.proof != nil && c.lacks(c.proof) }

// forgetProof continues after the proven version: the ledger has its lines, or was reset.
func (c *Coordinator) forgetProof() error {
	p := c.proof
	if p == nil {
		return nil
	}
	if c.stopsTree(p) {
		if err := c.stopTree(); err != nil {
			return err
		}
	}
	err := c.republish(&models.Published{
		Run: p.Run, RunNumber: p.RunNumber, Version: p.Version, Round: p.Round, Rollbacks: p.Rollbacks,
	})
	if err != nil {
		return err
	}
	c.opt.Warn(fmt.Sprintf("training resumes after round %d, and versions continue at %d", c.models.Round(),
		c.models.Last()))
	if err := c.st.PutJSON(proofKey, nil); err != nil {
		return err
	}
	c.proof = nil
	return nil
}

// stopsTree reports whether a proof, nil for none, ends a run with tree noise: another copy of the folder may have
// released rounds of its tree.
func (c *Coordinator) stopsTree(p *proof) bool {
	return p != nil && c.isTree() && !c.knowsLedger(uint64(p.LedgerLines), p.LedgerHead)
}

// describeProof says what the proof shows.
func (c *Coordinator) describeProof() string {
	return fmt.Sprintf("version %d of the model was released, and this state folder does not know it: the folder is "+
		"older than what was released, or another copy of it was running", c.proof.Version)
}

// outdatedMessage says what to do about a ledger that lacks lines.
func (c *Coordinator) outdatedMessage() string {
	return c.describeProof() + "; its privacy ledger lacks what was released, so nothing more is released. If this " +
		"folder was restored and has released no round since, stop the coordinator and copy the newest ledger.jsonl " +
		"and released.json into its folder, or run tacit admin restore with a newer backup. Otherwise stop the other " +
		"copy; " + resetHint
}
