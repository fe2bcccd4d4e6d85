package coordinator

import (
	"crypto/ed25519"
	"errors"
	"fmt"

	"github.com/tacit-rec/tacit/coordinator/internal/models"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/wire"
)

// A state folder that was restored from a back-up is older than what was released. Devices know: they
// hold a newer model. A claim alone changes nothing, since any device may lie; a manifest that this
// federation signed is a proof. Without a privacy guarantee, versions continue after the proven one.
// With one, the ledger is too short, so nothing is released until it is restored or reset.

// proof is a signed manifest that is newer than the state folder.
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
var errInterrupted = errors.New("devices hold a newer model")

// checkHeld compares the version that a device claims to have with the newest one. It returns whether
// the device is to show its manifest.
func (c *Coordinator) checkHeld(r *pb.CheckInRequest) (show bool) {
	if r.ModelVersion <= c.models.Last() {
		return false
	}
	if r.Held == nil {
		return true
	}
	m, err := wire.VerifyManifest(c.identity.key.Public().(ed25519.PublicKey), c.identity.id[:], r.Held)
	if err != nil || m.Version <= c.models.Last() {
		c.progress.count("unproven_versions", 1)
		return false
	}
	c.noteProof(&proof{
		Version: m.Version, Run: fmt.Sprintf("%x", m.Run), RunNumber: int(m.RunNumber), Round: int(m.Round),
		Rollbacks: int(m.Rollbacks), LedgerLines: int(m.LedgerLines), LedgerHead: m.LedgerHead,
		Period: int(m.BudgetPeriod),
	})
	return false
}

// noteProof keeps the newest proof and interrupts the round in progress.
func (c *Coordinator) noteProof(p *proof) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shown != nil && c.shown.Version >= p.Version {
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
	c.mu.Unlock()
	if p != nil && p.Version > c.models.Last() && (c.proof == nil || p.Version > c.proof.Version) {
		if err := c.st.PutJSON(proofKey, p); err != nil {
			return err
		}
		c.proof = p
		c.opt.Warn(fmt.Sprintf("a device holds version %d of the model, and the newest in the state folder is %d: the "+
			"folder is older than what was released", p.Version, c.models.Last()))
	}
	if c.proof == nil || c.outdated() {
		return nil
	}
	return c.forgetProof()
}

// outdated reports whether the ledger lacks lines that were written before the proven version was
// released. A ledger that grew by as many other lines lacks them too. A reset makes up for them: its budget
// period begins after that of the proven version.
func (c *Coordinator) outdated() bool {
	p := c.proof
	if p == nil || c.budget == nil || p.LedgerLines == 0 {
		return false
	}
	period, _ := c.budget.Period()
	return period <= p.Period && !c.budget.HasHead(p.LedgerLines, p.LedgerHead)
}

// forgetProof continues after the proven version: the ledger was restored or reset, or the run has no guarantee.
func (c *Coordinator) forgetProof() error {
	p := c.proof
	if p == nil {
		return nil
	}
	if p.Version > c.models.Last() {
		err := c.republish(&models.Published{
			Run: p.Run, RunNumber: p.RunNumber, Version: p.Version, Round: p.Round, Rollbacks: p.Rollbacks,
		})
		if err != nil {
			return err
		}
		c.opt.Warn(fmt.Sprintf("training resumes after round %d, and versions continue at %d", c.models.Round(),
			c.models.Last()))
	}
	if err := c.st.PutJSON(proofKey, nil); err != nil {
		return err
	}
	c.proof = nil
	return nil
}

// outdatedMessage says what to do about an old ledger.
func (c *Coordinator) outdatedMessage() string {
	return fmt.Sprintf("devices hold version %d of the model, and the newest in the state folder is %d: the privacy "+
		"ledger is older than what was released, so nothing more is released; stop the coordinator and copy the "+
		"newest ledger.jsonl and released.json into its folder, or run tacit admin restore with a newer back-up, or %s",
		c.proof.Version, c.models.Last(), resetHint)
}
