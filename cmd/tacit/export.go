package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	lib "github.com/tacit-rec/tacit"
	"github.com/tacit-rec/tacit/internal/atomicfile"
	"github.com/tacit-rec/tacit/internal/parquet"
)

// exportFormats are the values of --as.
var exportFormats = []string{"npy", "csv", "parquet"}

// exported lists what export writes, in its order.
var exported = []string{"items", "users", "top", "metrics"}

const exportLong = `
It writes what the model of a run has learnt, item vectors (items), user vectors (users) and the
recommendations of all users (top), and the numbers of its rounds and seeds (metrics). With --as npy,
NAME.npy is a NumPy array of float32 and NAME_ids.csv names its rows; with csv or parquet, one file has
both. Recommendations and metrics are CSV, or Parquet with --as parquet.`

const exportDetails = `
For most methods, the score of an item for a user is the product of the two vectors plus the user's bias,
which is the last column of users. If devices tune their tables, that holds for the coordinator's table.
Methods without such vectors have no users, and perhaps no items; the output says why. In a real federation
user vectors stay on the devices.`

func (a *app) exportCmd() *cobra.Command {
	var run, out, as, dataDir string
	var only []string
	var n int
	c := &cobra.Command{
		Use: "export", Short: "Write the vectors and recommendations of a run", Args: noArgs, Long: exportLong,
		Example: "  tacit run -d ml-100k -o runs/tacit\n  tacit export --run runs/tacit -o vectors\n  tacit export " +
			"--run runs/tacit -o lists --only top -n 50\n  tacit export --run runs/tacit -o vectors --as parquet",
	}
	fl := c.Flags()
	fl.StringVar(&run, "run", "", "run folder with the trained model")
	fl.StringVarP(&out, "out", "o", "", "folder to write to; default: the folder export in the run folder")
	fl.StringVar(&as, "as", "npy", "format: npy, csv or parquet")
	fl.StringSliceVar(&only, "only", nil, "what to write: items, users, top, metrics; default: all that the method has")
	fl.IntVarP(&n, "number", "n", 10, "items per user in top")
	dataDirFlag(fl, &dataDir)
	a.describe(c, exportDetails, flagsUnder("Export", "run out as only number", "data-dir"))
	c.RunE = func(c *cobra.Command, _ []string) error {
		switch {
		case run == "":
			return input(errors.New("--run is missing"), "example: tacit export --run runs/tacit")
		case !slices.Contains(exportFormats, as):
			return input(fmt.Errorf("--as %s: must be npy, csv or parquet", as), "")
		case n < 1:
			return input(fmt.Errorf("-n %d: must be 1 or more", n), "")
		}
		for _, name := range only {
			if !slices.Contains(exported, name) {
				return input(fmt.Errorf("--only %s: must be items, users, top or metrics", name), "")
			}
		}
		if len(only) == 0 {
			only = exported
		}
		if out == "" {
			out = filepath.Join(run, "export")
		}
		e := export{Folder: out, as: as, n: n, ctx: c.Context()}
		if slices.ContainsFunc(only, func(name string) bool { return name != "metrics" }) { // metrics need no model
			r, err := openRun(run, dataDir)
			if err != nil {
				return err
			}
			e.Method, e.Dataset = r.Method, r.Data
			for _, name := range exported {
				if name == "metrics" || !slices.Contains(only, name) {
					continue
				}
				if err := e.write(r, name); err != nil {
					return err
				}
			}
		}
		if slices.Contains(only, "metrics") {
			if err := e.writeMetrics(run); err != nil {
				return err
			}
		}
		if len(e.Files) == 0 {
			return input(fmt.Errorf("nothing was written: %s", strings.Join(e.LeftOut, "; ")), "")
		}
		return a.result(&e, e.text)
	}
	return c
}

// export is what an export wrote.
type export struct {
	Folder  string         `json:"folder"`
	Method  string         `json:"method"`
	Dataset string         `json:"dataset"`
	Files   []exportedFile `json:"files"`
	// Product says that the score is the product of a user's vector and an item's, plus the user's bias.
	Product bool     `json:"product"`
	LeftOut []string `json:"left_out,omitempty"` // what the method does not have, and why

	as  string
	n   int
	ctx context.Context
}

type exportedFile struct {
	File    string `json:"file"`
	Rows    int    `json:"rows"`
	Columns int    `json:"columns"`
}

// write writes one of exported.
func (e *export) write(r *lib.Result, name string) error {
	if err := e.ctx.Err(); err != nil {
		return err
	}
	if name == "top" {
		return e.writeTop(r)
	}
	get := r.ItemVectors
	if name == "users" {
		get = r.UserVectors
	}
	v, err := get()
	if err != nil {
		e.LeftOut = append(e.LeftOut, err.Error())
		return nil
	}
	e.Product = e.Product || v.Product
	columns := v.Dim
	if v.Bias != nil {
		columns++
	}
	if e.as == "csv" {
		return e.file(name+".csv", len(v.ID), columns+1, v.WriteCSV)
	}
	if e.as == "parquet" {
		var title func(string) string
		if name == "items" {
			columns++
			title = func(id string) string {
				text, _ := r.Title(id)
				return text
			}
		}
		write := func(w io.Writer) error { return v.WriteParquet(w, title) }
		return e.file(name+".parquet", len(v.ID), columns+1, write)
	}
	if err := e.file(name+".npy", len(v.ID), columns, v.WriteNPY); err != nil {
		return err
	}
	titles := name == "items"
	head := []string{"row", strings.TrimSuffix(name, "s")}
	if titles {
		head = append(head, "title")
	}
	return e.file(name+"_ids.csv", len(v.ID), len(head), func(w io.Writer) error {
		t := csv.NewWriter(w)
		_ = t.Write(head)
		for i, id := range v.ID {
			line := []string{strconv.Itoa(i), id}
			if titles {
				title, _ := r.Title(id)
				line = append(line, title)
			}
			_ = t.Write(line)
		}
		t.Flush()
		return t.Error()
	})
}

// topColumns are the columns of the recommendations.
var topColumns = []parquet.Column{
	{Name: "user", Kind: parquet.Text},
	{Name: "rank", Kind: parquet.Int},
	{Name: "item", Kind: parquet.Text},
	{Name: "title", Kind: parquet.Text},
	{Name: "score", Kind: parquet.Float},
	{Name: "held_out", Kind: parquet.Text},
}

// writeTop writes the recommendations of all users.
func (e *export) writeTop(r *lib.Result) error {
	name, write := "top.csv", topCSV
	if e.as == "parquet" {
		name, write = "top.parquet", topParquet
	}
	rows := 0
	err := e.file(name, 0, len(topColumns), func(w io.Writer) error {
		row, end := write(w)
		if err := r.RecommendAll(e.n, func(user string, items []lib.Item) error {
			if err := e.ctx.Err(); err != nil {
				return err
			}
			rows += len(items)
			for k, p := range items {
				if err := row(user, k+1, p); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		return end()
	})
	if err == nil {
		e.Files[len(e.Files)-1].Rows = rows
	}
	return err
}

// writeMetrics writes the numbers of a run in long form: a row for each seed, round and name.
func (e *export) writeMetrics(dir string) error {
	runs, err := loadRuns([]string{dir})
	if err != nil {
		return err
	}
	if err := noSearch(runs); err != nil {
		return err
	}
	e.Method, e.Dataset = runs[0].Result.Method, runs[0].Result.Dataset
	all := runs[0].Metrics()
	columns := []parquet.Column{
		{Name: "seed", Kind: parquet.Int},
		{Name: "round", Kind: parquet.Int},
		{Name: "name", Kind: parquet.Text},
		{Name: "value", Kind: parquet.Double},
	}
	if e.as == "parquet" {
		return e.file("metrics.parquet", len(all), len(columns), func(w io.Writer) error {
			t := parquet.NewWriter(w, columns...)
			for _, m := range all {
				t.Int(0, int64(m.Seed))
				t.Int(1, int64(m.Round))
				t.Text(2, m.Name)
				t.Double(3, m.Value)
				if err := t.EndRow(); err != nil {
					return err
				}
			}
			return t.Close()
		})
	}
	return e.file("metrics.csv", len(all), len(columns), func(w io.Writer) error {
		t := csv.NewWriter(w)
		_ = t.Write([]string{"seed", "round", "name", "value"})
		for _, m := range all {
			value := strconv.FormatFloat(m.Value, 'g', -1, 64)
			_ = t.Write([]string{strconv.FormatUint(m.Seed, 10), strconv.Itoa(m.Round), m.Name, value})
		}
		t.Flush()
		return t.Error()
	})
}

// topCSV returns functions that write a recommendation, and the end of the file.
func topCSV(w io.Writer) (row func(user string, rank int, p lib.Item) error, end func() error) {
	t := csv.NewWriter(w)
	var head []string
	for _, c := range topColumns {
		head = append(head, c.Name)
	}
	_ = t.Write(head)
	row = func(user string, rank int, p lib.Item) error {
		score := strconv.FormatFloat(float64(p.Score), 'g', -1, 32)
		return t.Write([]string{user, strconv.Itoa(rank), p.ID, p.Title, score, p.HeldOut})
	}
	return row, func() error {
		t.Flush()
		return t.Error()
	}
}

// topParquet is topCSV for a Parquet file.
func topParquet(w io.Writer) (row func(user string, rank int, p lib.Item) error, end func() error) {
	t := parquet.NewWriter(w, topColumns...)
	return func(user string, rank int, p lib.Item) error {
		t.Text(0, user)
		t.Int(1, int64(rank))
		t.Text(2, p.ID)
		t.Text(3, p.Title)
		t.Float(4, p.Score)
		t.Text(5, p.HeldOut)
		return t.EndRow()
	}, t.Close
}

// file writes one file and lists it.
func (e *export) file(name string, rows, columns int, write func(io.Writer) error) error {
	if st, err := os.Stat(e.Folder); err == nil && !st.IsDir() {
		return input(fmt.Errorf("-o %s is a file: must be a folder", e.Folder), "choose another -o")
	}
	if err := atomicfile.WriteTo(filepath.Join(e.Folder, name), write); errors.Is(err, context.Canceled) {
		return err
	} else if err != nil {
		return input(err, "choose another folder with -o")
	}
	e.Files = append(e.Files, exportedFile{name, rows, columns})
	return nil
}

func (e *export) text(w io.Writer) error {
	for _, f := range e.Files {
		fmt.Fprintf(w, "%s  %d rows, %d columns\n", filepath.Join(e.Folder, f.File), f.Rows, f.Columns)
	}
	for _, why := range e.LeftOut {
		fmt.Fprintf(w, "left out: %s\n", why)
	}
	if e.Product {
		fmt.Fprintln(w, "The score of an item for a user is the product of their vectors, plus the user's bias, "+
			"if any.")
	}
	return nil
}
