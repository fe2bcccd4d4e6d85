package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/internal/study/format"
)

func (a *app) adminOperators() *cobra.Command {
	return a.adminCommand("operators", "List the operators that have a token of their own", "", noArgs,
		func(ctx context.Context, admin *coordinator.AdminClient, _ []string) error {
			all, err := admin.Operators(ctx)
			if err != nil {
				return err
			}
			return list(a, all, "no operators besides the one on the coordinator's machine", "name, rights, created",
				func(o coordinator.Operator) []any { return []any{o.Name, rights(o.ReadOnly), moment(o.Created)} })
		})
}

func rights(readOnly bool) string {
	if readOnly {
		return "read"
	}
	return "all"
}

func (a *app) adminAddOperator() *cobra.Command {
	var readOnly bool
	c := a.adminCommand("add-operator NAME", "Create a token for an operator or a program",
		"  tacit admin add-operator grafana --read-only > grafana.token", exactArgs(1),
		func(ctx context.Context, admin *coordinator.AdminClient, words []string) error {
			token, err := admin.AddOperator(ctx, words[0], readOnly)
			if err != nil {
				return err
			}
			a.progress("operator %s (rights: %s) has this token, which is shown once:", words[0], rights(readOnly))
			return a.resultLine(map[string]any{"name": words[0], "read_only": readOnly, "token": token}, "%s", token)
		})
	c.Flags().BoolVar(&readOnly, "read-only", false, "the token allows only calls that read")
	a.describe(c, "", flagsUnder("Operator", "read-only", ""), connectGroup)
	return c
}

func (a *app) adminRemoveOperator() *cobra.Command {
	return a.adminCommand("remove-operator NAME", "Revoke the token of an operator",
		"  tacit admin remove-operator grafana", exactArgs(1),
		func(ctx context.Context, admin *coordinator.AdminClient, words []string) error {
			if err := admin.RemoveOperator(ctx, words[0]); err != nil {
				return err
			}
			return a.resultLine(map[string]any{"name": words[0], "removed": true},
				"removed operator %s: the token is refused from now on", words[0])
		})
}

// errAudit exits with code 1 after the log was printed.
var errAudit = errors.New("the audit log was changed outside of the coordinator")

func (a *app) adminAudit() *cobra.Command {
	var limit int
	c := a.adminCommand("audit", "Verify the audit log and show its last calls", "  tacit admin audit --limit 20",
		noArgs,
		func(ctx context.Context, admin *coordinator.AdminClient, _ []string) error {
			if limit < 1 {
				return input(fmt.Errorf("--limit %d: must be 1 or more", limit), "")
			}
			log, err := admin.Audit(ctx, limit)
			if err != nil {
				return err
			}
			err = a.result(log, func(out io.Writer) error { return writeAudit(out, log) })
			if err != nil || log.OK {
				return err
			}
			return fmt.Errorf("%w: %s", errAudit, log.Damage)
		})
	c.Long = "The log lists every call that changed something and every export, with operator, address and outcome.\n" +
		"Each line has the hash of the line before; the command exits with 1 if the chain is broken."
	c.Flags().IntVar(&limit, "limit", 100, "lines to show; the whole log is verified")
	a.describe(c, "", flagsUnder("Audit", "limit", ""), connectGroup)
	return c
}

// writeAudit prints the outcomes of calls, and the calls that have none, in at most 100 columns.
func writeAudit(out io.Writer, log *coordinator.Audit) error {
	ended := map[int]bool{}
	for _, e := range log.Entries {
		if e.Of != nil {
			ended[*e.Of] = true
		}
	}
	rows := [][]string{{"line", "time", "operator", "address", "call", "outcome"}}
	width := make([]int, len(rows[0]))
	for _, e := range log.Entries {
		if e.Of == nil && ended[e.N] {
			continue
		}
		call := e.Name
		if args := string(e.Args); args != "{}" {
			call += " " + args
		}
		rows = append(rows, []string{
			fmt.Sprint(e.N + 1), moment(e.Time), shorten(e.Operator, 12), shorten(e.Remote, 15), call,
			shorten(e.Outcome, 13),
		})
	}
	most := 100 - 2*len(width)
	for i := range width {
		for _, row := range rows {
			width[i] = max(width[i], utf8.RuneCountInString(row[i]))
		}
		if i != 4 {
			most -= width[i]
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		row[4] = shorten(row[4], most)
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	state := "every line is as it was written; --format json shows the calls in full"
	if !log.OK {
		state = log.Damage
	}
	_, err := fmt.Fprintf(out, "%s: %s\n", format.Plural(log.Lines, "line"), state)
	return err
}
