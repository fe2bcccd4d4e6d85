package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/report"
	"github.com/tacit-rec/tacit/param"
)

func (a *app) dataCmd() *cobra.Command {
	return group(&cobra.Command{Use: "data", Short: "List, fetch, describe and check data sets"},
		a.dataList(), a.dataFetch(), a.dataOne("describe", "Print a data set's card: sizes, sparsity, quantiles, "+
			"time span, hash", a.describe),
		a.dataOne("check", "Read a data set and say what a run would stumble over", a.check))
}

func (a *app) dataList() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "list", Short: "The data sets that are known by name, and where they are", Args: args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			t := report.Table{
				Header: []string{"name", "users", "items", "rows", "min rows", "what it is", "found"},
				Align:  "lrrrrll",
			}
			type known struct {
				Name, About, Home, Licence  string
				Users, Items, Rows, MinRows int
				Found, Next                 string
			}
			var out []known
			cfg, err := data.ParseWorld("")
			if err != nil {
				return err
			}
			out = append(out, known{
				Name: "world", About: "a synthetic film catalogue, built in (its rows: about)",
				Users: cfg.Users, Items: cfg.Items, Rows: cfg.Users * cfg.MeanRows, Found: "always",
			})
			for _, k := range data.KnownSets() {
				o := known{
					Name: k.Name, About: k.About, Home: k.Home, Licence: k.Licence, Users: k.Users,
					Items: k.Items, Rows: k.Rows, MinRows: k.MinRows, Found: found(k, dir),
				}
				if o.Found == "" {
					o.Next = howToGet(k)
				}
				out = append(out, o)
			}
			for _, k := range out {
				least, where := "", k.Found
				if k.MinRows > 0 {
					least = fmt.Sprint(k.MinRows)
				}
				if where == "" {
					where = "no: " + k.Next
				}
				t.Rows = append(t.Rows, []any{
					k.Name, fmt.Sprint(k.Users), fmt.Sprint(k.Items), fmt.Sprint(k.Rows),
					least, k.About, where,
				})
			}
			t.Notes = []string{
				"Min rows: users with fewer are left out, as in the counts; --min-rows says otherwise.",
				"Looked in: " + strings.Join(experiment.DataDirs(dir), ", ") + ".",
				"Any delimited file works too: tacit data check FILE; tacit run -d FILE.",
			}
			return a.result(out, t.Text)
		},
	}
	c.Flags().StringVar(&dir, "data-dir", "", "the folder of the data sets; else $TACIT_DATA, else the user's cache "+
		"folder")
	return c
}

// found is where a set is, or empty.
func found(k data.Known, dir string) string {
	for _, d := range experiment.DataDirs(dir) {
		if file := k.Find(os.DirFS(d)); file != "" {
			return filepath.Join(d, file)
		}
	}
	return ""
}

// howToGet is what to do next for a set that is not there.
func howToGet(k data.Known) string {
	if k.Archive.URL != "" {
		return "tacit data fetch " + k.Name
	}
	return "see " + k.Home
}

// dataOne is a command on one data set with the settings that reading it has.
func (a *app) dataOne(name, about string, do func(data.Source, *experiment.Settings) error) *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: name + " NAME|FILE", Short: about, Args: args(cobra.ExactArgs(1)),
		Example: "  tacit data " + name + " world\n  tacit data " + name + " ml-100k\n  tacit data " + name +
			" ratings.csv --columns user,item,rating,time",
	}
	var s experiment.Settings
	param.Defaults(&s)
	s.MinRows = 0
	values := map[string]*string{}
	for _, f := range param.Fields(&s) {
		switch f.Key {
		case "world", "sep", "header", "columns", "threshold", "dedup":
			values[f.Key] = c.Flags().String(f.Key, f.Default, f.Doc)
		case "min-rows":
			values[f.Key] = c.Flags().String(f.Key, "0", "users with fewer rows are left out; 0 is the data set's "+
				"own rule, 1 keeps all")
		}
	}
	c.Flags().StringVar(&dir, "data-dir", "", "the folder of the data sets; else $TACIT_DATA, else the user's cache "+
		"folder")
	c.RunE = func(_ *cobra.Command, words []string) error {
		for k, v := range values {
			if err := param.Set(&s, k, *v); err != nil {
				return input(fmt.Errorf("flag --%s: %w", k, err), "")
			}
		}
		s.Data = words[0]
		src, err := experiment.OpenData(&s, dir)
		if err != nil {
			return err
		}
		return do(src, &s)
	}
	return c
}

func (a *app) describe(src data.Source, _ *experiment.Settings) error {
	c := data.Describe(src)
	return a.result(c, func(w io.Writer) error {
		t := report.Table{Title: c.Name, Header: []string{"", ""}, Rows: cardRows(c, src)}
		return t.Text(w)
	})
}

func cardRows(c data.Card, src data.Source) [][]any {
	q := c.PerUser
	rows := [][]any{
		{"users", fmt.Sprint(c.Users)},
		{"items", fmt.Sprintf("%d (%d without a row)", c.Items, c.EmptyItems)},
		{"rows", fmt.Sprint(c.Rows)},
		{"distinct pairs", fmt.Sprintf("%d (%d rows repeat one)", c.Pairs, c.Duplicates)},
		{"sparsity", fmt.Sprintf("%.2f %%", 100*c.Sparsity)},
		{"rows per user", fmt.Sprintf("mean %.1f; min %d, 5%% %d, 25%% %d, median %d, 75%% %d, 95%% %d, max %d",
			q.Mean, q.Min, q.P5, q.P25, q.P50, q.P75, q.P95, q.Max)},
		{"tail share", fmt.Sprintf("%.1f %% of the rows go to the least popular 80 %% of the items", 100*c.TailShare)},
		{"times", c.TimeKind},
	}
	if c.TimeKind == data.RealTime.String() {
		day := func(s int64) string { return time.Unix(s, 0).UTC().Format(time.DateOnly) }
		rows = append(rows, []any{"time span", day(c.First) + " to " + day(c.Last)})
	}
	if len(src.Info().Title) > 0 {
		rows = append(rows, []any{"titles", "yes, such as " + src.Info().Title[0]})
	}
	for _, at := range src.Info().Attrs {
		rows = append(rows, []any{"user attribute", at.Name})
	}
	if c.Left != "" {
		rows = append(rows, []any{"left out", c.Left})
	}
	if c.Columns != "" {
		rows = append(rows, []any{"columns", c.Columns})
	}
	return append(rows, []any{"data hash", c.Hash})
}

// check reads the data and lists what matters to a run.
func (a *app) check(src data.Source, _ *experiment.Settings) error {
	c := data.Describe(src)
	var notes []string
	if c.PerUser.Min < 3 {
		notes = append(notes, "some users have fewer than 3 rows: a run leaves them out (--min-rows 3)")
	}
	if c.Duplicates > 0 {
		notes = append(notes, fmt.Sprintf("%d rows repeat a user and item: legal, and a held-out item may then be "+
			"in the train rows too; --dedup first keeps one of each", c.Duplicates))
	}
	if c.TimeKind != data.RealTime.String() {
		notes = append(notes, "times: "+c.TimeKind+"; the protocol temporal cannot be used")
	}
	if c.Items < 300 {
		notes = append(notes, "the catalogue is small: some users will be ranked against fewer than 99 items")
	}
	return a.result(map[string]any{
		"name": c.Name, "users": c.Users, "items": c.Items, "rows": c.Rows, "hash": c.Hash,
		"notes": notes,
	}, func(w io.Writer) error {
		fmt.Fprintf(w, "%s is readable: %d users, %d items, %d rows\n", c.Name, c.Users, c.Items, c.Rows)
		if c.Columns != "" {
			fmt.Fprintf(w, "  columns: %s\n", c.Columns)
		}
		for _, n := range notes {
			fmt.Fprintf(w, "  note: %s\n", n)
		}
		return nil
	})
}
