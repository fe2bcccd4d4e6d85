package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/internal/study/format"
)

const adminLong = `
On the coordinator's machine these commands find it through its state folder. From other machines, add
--coordinator and --pin, and set TACIT_ADMIN_TOKEN or --token-file: tacit admin add-operator creates a
token. Commands that change something print the state after the change. docs/admin-api.md documents
the same calls for curl.`

func (a *app) adminCmd() *cobra.Command {
	c := &cobra.Command{
		Use: "admin", Short: "Operate a coordinator", Long: adminLong,
		Example: "  tacit admin status\n  tacit admin token --uses 100 --hours 24\n  tacit admin rollback 7",
	}
	return group(c, a.adminStatus(), a.adminBegin(), a.adminEnd(), a.adminPause(true), a.adminPause(false),
		a.adminRuns(), a.adminHistory(), a.adminRollback(), a.adminBudget(), a.adminResetBudget(), a.adminItems(),
		a.adminExport(),
		a.adminBackup(), a.adminRestore(),
		a.adminDevices(), a.adminToken(), a.adminTokens(), a.adminRevokeToken(), a.adminAppKey(),
		a.adminRevoke(), a.adminReadmit(),
		a.adminOperators(), a.adminAddOperator(), a.adminRemoveOperator(), a.adminAudit())
}

// adminCommand makes a command that calls the admin API.
func (a *app) adminCommand(use, short, example string, check cobra.PositionalArgs,
	do func(ctx context.Context, admin *coordinator.AdminClient, words []string) error,
) *cobra.Command {
	var r connectFlags
	c := &cobra.Command{Use: use, Short: short, Example: example, Args: check}
	r.flags(c, adminToken)
	a.describe(c, "", connectGroup)
	c.RunE = func(c *cobra.Command, words []string) error {
		admin, err := r.admin()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(c.Context(), 5*time.Minute)
		defer cancel()
		return networkError(do(ctx, admin, words))
	}
	return c
}

// list prints a table with a row for each value, or says that it is empty.
func list[T any](a *app, all []T, empty, columns string, row func(T) []any) error {
	return a.result(all, func(out io.Writer) error {
		if len(all) == 0 {
			_, err := fmt.Fprintln(out, empty)
			return err
		}
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, strings.ReplaceAll(columns, ", ", "\t"))
		for _, x := range all {
			for i, cell := range row(x) {
				fmt.Fprint(w, strings.Repeat("\t", min(i, 1)), cell)
			}
			fmt.Fprintln(w)
		}
		return w.Flush()
	})
}

// moment writes a time in a table.
func moment(t time.Time) string { return t.Local().Format(time.DateTime) }

func (r *connectFlags) admin() (*coordinator.AdminClient, error) {
	w, err := r.find(true)
	if err != nil {
		return nil, err
	}
	admin, err := coordinator.DialAdmin(r.options(w))
	if err != nil {
		return nil, input(err, "")
	}
	return admin, nil
}

// changed prints what a command changed; as JSON, the state of the coordinator afterwards.
func (a *app) changed(s *coordinator.Status, format string, values ...any) error {
	return a.resultLine(s, format, values...)
}

// settleTime is how long a command waits for what it requested.
const settleTime = 10 * time.Second

// silentFor is how long a command prints nothing before it says what it waits for.
const silentFor = 2 * time.Second

// settle waits until the coordinator has done what was requested, or settleTime has passed. It returns the state
// then. After silentFor it says what it waits for.
func (a *app) settle(ctx context.Context, admin *coordinator.AdminClient, s *coordinator.Status,
	done func(*coordinator.Status) bool,
) (*coordinator.Status, error) {
	begun := time.Now()
	end, said := begun.Add(settleTime), false
	for wait := 20 * time.Millisecond; !done(s) && time.Now().Before(end); wait = min(2*wait, time.Second) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(wait):
		}
		if !said && !a.quiet && time.Since(begun) > silentFor {
			said = true
			fmt.Fprintf(a.err, "waiting for the end of %s\n", inProgress(s))
		}
		var err error
		if s, err = admin.Status(ctx); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (a *app) adminBudget() *cobra.Command {
	return a.adminCommand("budget", "Show the privacy budget and what was spent of it", "  tacit admin budget", noArgs,
		func(ctx context.Context, admin *coordinator.AdminClient, _ []string) error {
			s, err := admin.Status(ctx)
			if err != nil {
				return err
			}
			return a.resultLine(&s.Budget, "%s", spent(s))
		})
}

func (a *app) adminStatus() *cobra.Command {
	return a.adminCommand("status", "Show the state of a coordinator", "  tacit admin status --json", noArgs,
		func(ctx context.Context, admin *coordinator.AdminClient, _ []string) error {
			s, err := admin.Status(ctx)
			if err != nil {
				return err
			}
			return a.result(s, func(out io.Writer) error { return writeStatus(out, s) })
		})
}

// writeStatus prints the state of a coordinator.
func writeStatus(out io.Writer, s *coordinator.Status) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(k, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", k, fmt.Sprintf(format, args...)) }
	line("state", "%s: %s", s.State, s.Message)
	if s.Paused && s.State != coordinator.Paused {
		line("paused", "no other round starts until tacit admin resume")
	}
	if s.Method != "" {
		line("run", "%d of %s (%s), round %d of %d, model version %d", s.RunNumber, s.Name, s.Method, s.Round, s.Rounds,
			s.Version)
		if s.NextRun != nil {
			line("next run", "%s UTC", s.NextRun.UTC().Format("2006-01-02 15:04"))
		}
		line("devices", "%s", enrolment(s))
		if p := evaluationProgress(s); p != "" {
			line("now", "%s", p)
		} else if s.Expected > 0 {
			line("round", "%d of %d reports", s.Counted, s.Expected)
		}
		line("catalogue", "%s, version %d", format.Plural(s.Items, "item"), s.Catalogue)
		line("privacy", "%s", s.Policy)
		if s.Delta != nil {
			line("spent", "%s", budgetText(&s.Budget))
		}
	}
	for _, d := range s.Excluded {
		line("excluded", "device %d: %s", d.ID, d.Reason)
	}
	if s.Lost > 0 {
		line("LOST", "%d acknowledged reports are in no sum: the folder was damaged, or is an older copy", s.Lost)
	}
	var keys []string
	for k := range s.Counts {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		line(strings.ReplaceAll(k, "_", " "), "%d", s.Counts[k])
	}
	for i := range s.Evaluations {
		line(fmt.Sprintf("evaluation %d", s.Evaluations[i].Round), "%s", evaluationText(&s.Evaluations[i]))
	}
	if s.EvaluationMissed != "" {
		line("no evaluation", "%s", s.EvaluationMissed)
	}
	return w.Flush()
}

// budgetText says what was spent of the privacy budget.
func budgetText(b *coordinator.Budget) string {
	if b.Epsilon == nil {
		return "unknown: entries of the ledger were lost, so that the whole budget counts as spent; " +
			"tacit admin reset-budget begins a new budget period"
	}
	of := ""
	if b.BudgetEpsilon != nil {
		of = fmt.Sprintf(" of %.4g", *b.BudgetEpsilon)
	}
	least := ""
	if b.EpsilonTooLow {
		least = "at least "
	}
	text := fmt.Sprintf("%sepsilon %.4g%s at delta %.3g; protects from %s", least, *b.Epsilon, of, *b.Delta,
		b.Guarantee)
	if b.Runs > 1 {
		text += fmt.Sprintf("; run %d of %d that share the budget", b.RunInPeriod, b.Runs)
	}
	if b.BudgetPeriod > 1 {
		text += fmt.Sprintf("; budget period %d", b.BudgetPeriod)
	}
	if b.EpsilonTooLow {
		text += "; devices have a newer model, so more was spent than the ledger says"
	} else if !b.LedgerOK {
		text += "; THE LEDGER IS INCOMPLETE"
	}
	return text
}
