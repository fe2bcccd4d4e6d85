package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/report"
	"github.com/tacit-rec/tacit/param"
)

func (a *app) dataCmd() *cobra.Command {
	return group(&cobra.Command{
		Use: "data", Short: "List, fetch, describe and check data sets",
		Long: `Tacit knows some public data sets by name, and reads files of users and items: delimited text,
JSON lines and Parquet. It detects the separator, the header and the columns of a file, or takes
them from flags.`,
		Example: "  tacit data list\n  tacit data fetch ml-100k\n  tacit data check ratings.csv",
	}, a.dataListCmd(), a.dataFetchCmd(),
		a.dataReadCmd("describe", "Print sizes, sparsity, quantiles, time span and hash of a data set", a.dataDescribe),
		a.dataReadCmd("check", "Read a data set and list what may affect a run", a.dataCheck))
}

// listedSet is a data set as tacit data list shows it.
type listedSet struct {
	Name, About, Home, Licence  string
	Users, Items, Rows, MinRows int
	Found, Next                 string
}

func (a *app) dataListCmd() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "list", Short: "List the data sets known by name, and where they are", Args: noArgs,
		Example: "  tacit data list\n  tacit data list --data-dir ~/data",
		Long:    "Sets that are not on this machine are listed with the command that downloads them, or their page.",
		RunE: func(*cobra.Command, []string) error {
			sets, err := listSets(dir)
			if err != nil {
				return err
			}
			return a.result(sets, func(w io.Writer) error { return writeSets(w, sets, dir) })
		},
	}
	dataDirFlag(c.Flags(), &dir)
	return c
}

func listSets(dir string) ([]listedSet, error) {
	cfg, err := data.ParseWorld("")
	if err != nil {
		return nil, err
	}
	out := []listedSet{{
		Name: "world", About: "synthetic film catalogue, built in",
		Users: cfg.Users, Items: cfg.Items, Rows: cfg.Users * cfg.MeanRows, Found: "always",
	}}
	for _, k := range data.KnownSets() {
		s := listedSet{
			Name: k.Name, About: k.About, Home: k.Home, Licence: k.Licence, Users: k.Users,
			Items: k.Items, Rows: k.Rows, MinRows: k.MinRows, Found: findSet(k, dir),
		}
		if s.Found == "" {
			s.Next = getHint(k)
		}
		out = append(out, s)
	}
	return out, nil
}

// writeSets prints a table of the sets, then where each is.
func writeSets(w io.Writer, sets []listedSet, dir string) error {
	t := report.Table{Header: []string{"name", "users", "items", "interactions", "what it is"}, Align: "lrrrl"}
	var have, missing strings.Builder
	for _, s := range sets {
		t.Rows = append(t.Rows, []any{s.Name, s.Users, s.Items, s.Rows, shorten(s.About, 52)})
		switch {
		case s.Next != "":
			fmt.Fprintf(&missing, "  %-18s %s\n", s.Name, s.Next)
		default:
			fmt.Fprintf(&have, "  %-18s %s\n", s.Name, s.Found)
		}
	}
	if err := t.Text(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nAvailable:\n%s", have.String())
	if missing.Len() > 0 {
		fmt.Fprintf(w, "\nNot found in %s:\n%s", strings.Join(experiment.DataDirs(dir), " or "), missing.String())
	}
	_, err := fmt.Fprint(w, "\nThe counts leave out users with too few interactions (--min-rows changes that).\n"+
		"Files work too (text, JSON lines, Parquet): tacit data check FILE, then tacit run -d FILE.\n")
	return err
}

// findSet returns the file of a set, or "" if the set is not on this machine.
func findSet(k data.KnownSet, dir string) string {
	for _, d := range experiment.DataDirs(dir) {
		if file := k.Find(os.DirFS(d)); file != "" {
			return filepath.Join(d, file)
		}
	}
	return ""
}

// getHint says how to get a set.
func getHint(k data.KnownSet) string {
	if k.Archive.URL != "" {
		return "tacit data fetch " + k.Name
	}
	return "see " + k.Home
}

// dataReadCmd makes a command that reads one data set.
func (a *app) dataReadCmd(name, about string, do func(data.Source, *experiment.Settings) error) *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: name + " NAME|FILE", Short: about, Args: exactArgs(1),
		Example: "  tacit data " + name + " world\n  tacit data " + name + " ml-100k\n  tacit data " + name +
			" ratings.csv --columns user,item,rating,time",
	}
	var s experiment.Settings
	param.Defaults(&s)
	var except []string
	reads := append([]string{"world"}, param.Keys(&s.Reading)...)
	for _, f := range param.Fields(&s) {
		if !slices.Contains(reads, f.Key) || f.Key == "min-rows" || f.Key == "time-cut" || f.Key == "test-rows" {
			except = append(except, f.Key)
		}
	}
	settings := settingFlags(c.Flags(), except...)
	c.Flags().IntVar(&s.MinRows, "min-rows", 0, "drop users with fewer interactions; 0: the data set's own rule")
	dataDirFlag(c.Flags(), &dir)
	a.describe(c, "",
		flagsUnder("Reading", "columns time-format min-rows k-core",
			"sep header threshold dedup test-file valid-file world data-dir"))
	c.RunE = func(_ *cobra.Command, words []string) error {
		for _, v := range settings() {
			if err := param.Set(&s, v.Key, v.Value); err != nil {
				return input(fmt.Errorf("%s: %w", v.From, err), "")
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

func (a *app) dataDescribe(src data.Source, _ *experiment.Settings) error {
	c := data.Describe(src)
	return a.result(c, func(w io.Writer) error {
		t := report.Table{Title: c.Name, Header: []string{"", ""}, Rows: cardRows(c, src)}
		return t.Text(w)
	})
}

func cardRows(c data.Description, src data.Source) [][]any {
	q := c.PerUser
	rows := [][]any{
		{"users", fmt.Sprint(c.Users)},
		{"items", fmt.Sprintf("%d (%d without interactions)", c.Items, c.EmptyItems)},
		{"interactions", fmt.Sprint(c.Rows)},
		{"distinct pairs", fmt.Sprintf("%d (%d repeated)", c.Pairs, c.Duplicates)},
		{"sparsity", fmt.Sprintf("%.2f %%", 100*c.Sparsity)},
		{"per user", fmt.Sprintf("mean %.1f; min %d, 5%% %d, 25%% %d, median %d, 75%% %d, 95%% %d, max %d",
			q.Mean, q.Min, q.P5, q.P25, q.P50, q.P75, q.P95, q.Max)},
		{"tail share", fmt.Sprintf("%.1f %% of interactions are with the least popular 80 %% of items",
			100*c.TailShare)},
		{"times", c.TimeKind},
	}
	if c.TimeKind == data.RealTime.String() {
		day := func(s int64) string { return time.Unix(s, 0).UTC().Format(time.DateOnly) }
		rows = append(rows, []any{"time span", day(c.First) + " to " + day(c.Last)})
	}
	if len(src.Info().Title) > 0 {
		rows = append(rows, []any{"titles", "for example " + src.Info().Title[0]})
	}
	for _, at := range src.Info().Attrs {
		rows = append(rows, []any{"user attribute", at.Name})
	}
	if c.FilteredOut != "" {
		rows = append(rows, []any{"dropped", c.FilteredOut})
	}
	if c.Columns != "" {
		rows = append(rows, []any{"columns", c.Columns})
	}
	if c.Split != "" {
		rows = append(rows, []any{"split", c.Split})
	}
	for _, n := range c.Notes {
		rows = append(rows, []any{"note", n})
	}
	return append(rows, []any{"data hash", c.Hash})
}

// dataCheck lists what may affect a run on the data.
func (a *app) dataCheck(src data.Source, s *experiment.Settings) error {
	if err := experiment.CheckData(src, s); err != nil {
		return err
	}
	c := data.Describe(src)
	notes := slices.Clone(src.Info().Notes)
	if c.PerUser.Min < 3 {
		notes = append(notes, "some users have fewer than 3 interactions; a run drops them (--min-rows)")
	}
	if c.Duplicates > 0 {
		notes = append(notes, fmt.Sprintf("%d interactions repeat a user and item, so a held-out item may also "+
			"be in training; --dedup first keeps one of each", c.Duplicates))
	}
	if c.TimeKind != data.RealTime.String() {
		order := ""
		if c.TimeKind == data.NoTime.String() {
			order = "a user's first row in the file counts as its newest; "
		}
		notes = append(notes, "times: "+c.TimeKind+"; "+order+"--protocol temporal needs real times")
	}
	if c.Items < 300 {
		notes = append(notes, "fewer than 300 items: some users are ranked among fewer than 100 candidates")
	}
	return a.result(map[string]any{
		"name": c.Name, "users": c.Users, "items": c.Items, "rows": c.Rows, "hash": c.Hash,
		"notes": notes,
	}, func(w io.Writer) error {
		fmt.Fprintf(w, "%s is readable: %d users, %d items, %d interactions\n", c.Name, c.Users, c.Items, c.Rows)
		if c.Columns != "" {
			fmt.Fprintf(w, "  columns: %s\n", c.Columns)
		}
		if c.Split != "" {
			fmt.Fprintf(w, "  split: %s\n", c.Split)
		}
		for _, n := range notes {
			fmt.Fprintf(w, "  note: %s\n", n)
		}
		return nil
	})
}
