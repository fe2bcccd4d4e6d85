package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/internal/study/format"
)

const backupLong = `
Rounds continue meanwhile. The folder then holds one consistent, verified backup; another call
replaces it. A folder to which another call writes is refused. With --follow the command stays and
ships each new line of the ledger, the number of the released version and the audit log as they are
written: a coordinator that is restored then knows what was spent. It replaces the whole backup when a
run begins, and after any other change (enrolments, operators, tokens) at most once a minute and for a
twentieth of the time. The backup contains the federation's keys: keep it as safe as the state folder.
Without a running coordinator, use --offline.`

func (a *app) adminBackup() *cobra.Command {
	var dir, offline string
	var follow bool
	var times followTimes
	var r connectFlags
	c := &cobra.Command{
		Use: "backup", Short: "Back up a coordinator while it runs", Long: backupLong, Args: noArgs,
		Example: "  tacit admin backup -o /backup/tacit\n  tacit admin backup -o /backup/tacit --follow",
	}
	r.flags(c, adminToken)
	fl := c.Flags()
	fl.StringVarP(&dir, "out", "o", "", "folder of the backup")
	fl.BoolVar(&follow, "follow", false, "then ship the ledger and released versions until interrupted")
	fl.DurationVar(&times.every, "every", 10*time.Second, "with --follow: time between looks for something new")
	fl.DurationVar(&times.full, "full-every", time.Minute, "with --follow: least time between complete backups")
	fl.StringVar(&offline, "offline", "", "state folder of a coordinator that does not run")
	a.describe(c, "", flagsUnder("Backup", "out follow offline", "every full-every"), connectGroup)
	c.PreRunE = func(*cobra.Command, []string) error {
		switch {
		case dir == "":
			return input(errors.New("-o is missing: the folder of the backup"), "example: -o /backup/tacit")
		case follow && offline != "":
			return input(errors.New("--follow needs a running coordinator"), "omit --offline")
		case times.every <= 0 || times.full <= 0:
			return input(errors.New("--every and --full-every must be above 0"), "example: --every 10s")
		}
		return nil
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx := c.Context()
		if offline != "" {
			return a.backedUp(dir)(receive(dir, func(w io.Writer) error {
				return coordinator.WriteFolderBackup(offline, w, coordinator.BackupOptions{})
			}))
		}
		admin, err := r.admin()
		if err != nil {
			return err
		}
		f := &follower{app: a, admin: admin, dir: dir, times: times}
		if !follow {
			return f.backUp(ctx)
		}
		return f.follow(ctx)
	}
	return c
}

// followTimes says how often a backup that follows a coordinator looks, and how often it is complete.
type followTimes struct{ every, full time.Duration }

// follower keeps a backup up to date.
type follower struct {
	*app
	admin *coordinator.AdminClient
	dir   string
	times followTimes

	shipped followed  // what the backup has
	whole   uint64    // the changes that its complete part has; 0 before the first
	next    time.Time // of the complete part
}

// followed is what a follower ships as it is written.
type followed struct {
	run, lines int // of the ledger
	version    uint64
	calls      int64 // in the audit log, without backups
}

func followedOf(s *coordinator.Status) followed {
	return followed{s.RunNumber, s.LedgerLines, s.Version, s.Counts["admin_calls"]}
}

// backUp makes a complete backup.
func (f *follower) backUp(ctx context.Context) error {
	return f.backedUp(f.dir)(receive(f.dir, func(w io.Writer) error {
		return f.admin.Backup(ctx, w, coordinator.BackupOptions{})
	}))
}

// follow makes a complete backup and keeps it up to date until ctx is done.
func (f *follower) follow(ctx context.Context) error {
	if err := f.update(ctx); err != nil {
		return err
	}
	tick := time.NewTicker(f.times.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := f.update(ctx); err != nil && ctx.Err() == nil {
			e, _ := explainError(err)
			f.progress("not backed up, trying again in %v: %s; %s", f.times.every, e.Message, e.Hint)
		}
	}
}

// update ships the ledger, the released version and the audit log if something is new. It makes a complete backup
// if a run has begun, or if anything else has changed and the last one was long ago for what it takes.
func (f *follower) update(ctx context.Context) error {
	s, err := f.admin.Status(ctx)
	if err != nil {
		return networkError(err)
	}
	now := followedOf(s)
	old := s.Changes != f.whole && time.Now().After(f.next)
	if !old && now == f.shipped {
		return nil
	}
	if !old {
		err = f.ship(ctx, s)
	}
	if old || errors.Is(err, coordinator.ErrOtherRun) {
		began := time.Now()
		if err = f.backUp(ctx); err == nil {
			f.whole, f.next = s.Changes, time.Now().Add(max(f.times.full, 20*time.Since(began)))
		}
	}
	if err == nil {
		f.shipped = now // what came meanwhile is found the next time
	}
	return err
}

// ship adds the newest lines to the backup.
func (f *follower) ship(ctx context.Context, s *coordinator.Status) error {
	old, err := coordinator.ReadBackup(f.dir)
	if err != nil {
		return err
	}
	o := coordinator.BackupOptions{Partial: true, Have: old.ShippedBytes()}
	if _, err := receive(f.dir, func(w io.Writer) error { return f.admin.Backup(ctx, w, o) }); err != nil {
		return err
	}
	f.progress("shipped: version %d, %s of the ledger", s.Version, format.Plural(s.LedgerLines, "line"))
	return nil
}

// receive unpacks what send writes.
func receive(dir string, send func(io.Writer) error) (*coordinator.Backup, error) {
	out, in := io.Pipe()
	go func() { in.CloseWithError(send(in)) }()
	defer out.Close()
	b, err := coordinator.ReceiveBackup(out, dir)
	return b, networkError(err)
}

func (a *app) backedUp(dir string) func(b *coordinator.Backup, err error) error {
	return func(b *coordinator.Backup, err error) error {
		if err != nil {
			return err
		}
		return a.resultLine(b, "backed up to %s: version %d, %d files, verified; it contains the federation's keys",
			dir, b.Version, len(b.Files))
	}
}

const restoreLong = `
The state folder must be new or empty. All hashes are verified, before and after. Ledger and released
version are the newest ones that were shipped (tacit admin backup --follow). If releases were made
after that, the restored coordinator does not know them and shows a budget that is too low: it learns
from the check-ins of devices that it is outdated, and then releases nothing more. docs/operate.md
says what to do.`

func (a *app) adminRestore() *cobra.Command {
	var from, state string
	c := &cobra.Command{
		Use: "restore", Short: "Make a state folder from a backup", Long: restoreLong, Args: noArgs,
		Example: "  tacit admin restore --from /backup/tacit --state run2\n  tacit serve --state run2",
	}
	c.Flags().StringVar(&from, "from", "", "folder of the backup")
	c.Flags().StringVar(&state, "state", "", "state folder to create")
	a.describe(c, "", flagsUnder("Folders", "from state", ""))
	c.RunE = func(*cobra.Command, []string) error {
		if from == "" || state == "" {
			return input(errors.New("--from and --state are both required"), "see tacit admin restore --help")
		}
		b, err := coordinator.Restore(from, state)
		if errors.Is(err, fs.ErrNotExist) {
			return input(errors.New("no backup was found in "+from), "make one with tacit admin backup -o "+from)
		}
		if err != nil {
			return input(err, "")
		}
		return a.resultLine(b, "restored version %d of %s to %s, verified\nThe ledger is of %s. What was released "+
			"later is not in it: the budget shown may then be too low, and devices will prove it.", b.Version,
			b.Created.Local().Format(time.DateTime), state, b.Updated.Local().Format(time.DateTime))
	}
	return c
}
