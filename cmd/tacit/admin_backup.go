package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/coordinator"
)

const backupLong = `
Rounds continue meanwhile. The folder then holds one consistent, verified back-up; another call
replaces it. With --follow the command stays and ships each new line of the ledger, the number of
the released version and the audit log as they are written: a coordinator that is restored then
knows what was spent. The back-up contains the federation's keys: keep it as safe as the state
folder. Without a running coordinator, use --offline.`

func (a *app) adminBackup() *cobra.Command {
	var dir, offline string
	var follow bool
	var every time.Duration
	var r connectFlags
	c := &cobra.Command{
		Use: "backup", Short: "Back up a coordinator while it runs", Long: backupLong, Args: noArgs,
		Example: "  tacit admin backup -o /backup/tacit\n  tacit admin backup -o /backup/tacit --follow",
	}
	r.flags(c, adminToken)
	fl := c.Flags()
	fl.StringVarP(&dir, "out", "o", "", "folder of the back-up")
	fl.BoolVar(&follow, "follow", false, "then ship the ledger and released versions until interrupted")
	fl.DurationVar(&every, "every", 10*time.Second, "with --follow: time between looks for something new")
	fl.StringVar(&offline, "offline", "", "state folder of a coordinator that does not run")
	a.describe(c, "", flagsUnder("Back-up", "out follow offline", "every"), connectGroup)
	c.PreRunE = func(*cobra.Command, []string) error {
		switch {
		case dir == "":
			return input(errors.New("-o is missing: the folder of the back-up"), "example: -o /backup/tacit")
		case follow && offline != "":
			return input(errors.New("--follow needs a running coordinator"), "omit --offline")
		case every <= 0:
			return input(errors.New("--every must be above 0"), "example: --every 10s")
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
		full := func(w io.Writer) error { return admin.Backup(ctx, w, coordinator.BackupOptions{}) }
		if err := a.backedUp(dir)(receive(dir, full)); err != nil || !follow {
			return err
		}
		return a.followLedger(ctx, admin, dir, every)
	}
	return c
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

// followLedger ships the ledger, the released version and the audit log when there is something new.
func (a *app) followLedger(ctx context.Context, admin *coordinator.AdminClient, dir string, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	lines, version := -1, uint64(0)
	for {
		s, err := admin.Status(ctx)
		if err == nil && (s.LedgerLines != lines || s.Version != version) {
			var old *coordinator.Backup
			if old, err = coordinator.ReadBackup(dir); err == nil {
				o := coordinator.BackupOptions{Partial: true, Have: old.ShippedBytes()}
				_, err = receive(dir, func(w io.Writer) error { return admin.Backup(ctx, w, o) })
			}
			if err == nil {
				lines, version = s.LedgerLines, s.Version
				a.progress("shipped: version %d, %d lines of the ledger", version, lines)
			}
		}
		if err != nil && ctx.Err() == nil {
			a.progress("not shipped, retrying: %v", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
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
		Use: "restore", Short: "Make a state folder from a back-up", Long: restoreLong, Args: noArgs,
		Example: "  tacit admin restore --from /backup/tacit --state run2\n  tacit serve --state run2",
	}
	c.Flags().StringVar(&from, "from", "", "folder of the back-up")
	c.Flags().StringVar(&state, "state", "", "state folder to create")
	a.describe(c, "", flagsUnder("Folders", "from state", ""))
	c.RunE = func(*cobra.Command, []string) error {
		if from == "" || state == "" {
			return input(errors.New("--from and --state are both required"), "see tacit admin restore --help")
		}
		b, err := coordinator.Restore(from, state)
		if errors.Is(err, fs.ErrNotExist) {
			return input(errors.New("no back-up was found in "+from), "make one with tacit admin backup -o "+from)
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
