package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	lib "github.com/tacit-rec/tacit"
	"github.com/tacit-rec/tacit/device"
	"github.com/tacit-rec/tacit/internal/study/experiment"
	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/report"
)

// recommendFlags are the flags of recommend; without run, it works on a device's state.
type recommendFlags struct {
	stateFlags
	n                           int
	run, user, history, dataDir string
	whole                       bool
}

const recommendLong = `
With --run it uses the model that tacit run -o DIR has trained: for a user of its data, or for a
history that was not in training. Otherwise it uses the history and the last model on a device
and makes no network call. Seen items and retired items are left out.`

const recommendDetails = `
A history is a CSV file with an item ID in each line, oldest first, or with a header that starts with
item and may name time and rating. The list of a user is what its device would show after the last round:
held-out items may appear, and are marked. --whole-history recommends what comes after them. A new device
has no model yet: tacit device --once downloads one.`

func (a *app) recommendCmd() *cobra.Command {
	var f recommendFlags
	c := &cobra.Command{
		Use: "recommend", Short: "Recommend items, with the model of a run or of a device", Args: noArgs,
		Long: recommendLong,
		Example: "  tacit run -d ml-100k -o runs/tacit\n  tacit recommend --run runs/tacit --user 42\n  tacit " +
			"recommend --run runs/tacit --history seen.csv -n 20 --format json\n  tacit recommend --state my.state",
	}
	f.flags(c)
	fl := c.Flags()
	fl.IntVarP(&f.n, "number", "n", 10, "number of items")
	fl.StringVar(&f.run, "run", "", "run folder with the trained model")
	fl.StringVar(&f.user, "user", "", "a user of the run's data")
	fl.StringVar(&f.history, "history", "", "CSV file of item IDs, for a user outside of training")
	fl.BoolVar(&f.whole, "whole-history", false, "also read the user's held-out items")
	dataDirFlag(fl, &f.dataDir)
	a.describe(c, recommendDetails, flagsUnder("Recommend", "number", ""),
		flagsUnder("Run", "run user history whole-history", "data-dir"), stateGroup)
	c.RunE = func(*cobra.Command, []string) error {
		if f.n < 1 {
			return input(fmt.Errorf("-n %d: must be 1 or more", f.n), "")
		}
		if f.run != "" {
			return a.recommendFromRun(&f)
		}
		if f.user != "" || f.history != "" || f.whole || f.dataDir != "" {
			return input(errors.New("--user, --history, --whole-history and --data-dir require --run DIR"),
				"example: tacit recommend --run runs/tacit --user 42")
		}
		d, _, path, err := f.existing()
		if err != nil {
			return deviceHint(err)
		}
		list, err := d.Recommend(f.n)
		if errors.Is(err, device.ErrNoModel) {
			return input(err, "tacit device --once --state "+path)
		}
		if err != nil {
			return deviceHint(err)
		}
		return a.result(list, func(w io.Writer) error { return writeList(w, list) })
	}
	return c
}

// runList is what recommend prints for a run.
type runList struct {
	Run      string     `json:"run"`
	Method   string     `json:"method"`
	Dataset  string     `json:"dataset"`
	Protocol string     `json:"protocol"`
	Seed     uint64     `json:"seed"`
	User     string     `json:"user,omitempty"`
	History  string     `json:"history,omitempty"`
	Unknown  int        `json:"unknown_items,omitempty"` // items of the history that the data does not have
	Items    []lib.Item `json:"items"`
}

func (a *app) recommendFromRun(f *recommendFlags) error {
	switch {
	case (f.user == "") == (f.history == ""):
		return input(errors.New("--run requires either --user or --history"),
			"example: tacit recommend --run "+f.run+" --user 42")
	case f.state != "" || f.ask || f.phraseFile != "":
		return input(errors.New("--run and --state exclude each other: a run has no device"), "omit one of them")
	case f.whole && f.user == "":
		return input(errors.New("--whole-history requires --user: all of a --history is read"), "omit --whole-history")
	}
	r, err := openRun(f.run, f.dataDir)
	if err != nil {
		return err
	}
	out := &runList{
		Run: f.run, Method: r.Method, Dataset: r.Data, Protocol: r.Protocol, Seed: r.Seed, User: f.user,
		History: f.history,
	}
	switch {
	case f.history != "":
		var history []lib.Interaction
		if history, err = readInteractions(f.history); err != nil {
			return err
		}
		for _, x := range history {
			if _, known := r.Title(x.Item); !known {
				out.Unknown++
			}
		}
		out.Items, err = r.RecommendTo(history, f.n)
	case f.whole:
		out.Items, err = r.RecommendNext(f.user, f.n)
	default:
		out.Items, err = r.Recommend(f.user, f.n)
	}
	if err != nil {
		return input(err, "")
	}
	return a.result(out, func(w io.Writer) error { return writeRunList(w, out) })
}

// openRun loads the model of a run folder.
func openRun(dir, dataDir string) (*lib.Result, error) {
	r, err := lib.Open(dir, dataDir)
	var in *experiment.InputError
	if errors.As(err, &in) {
		if !exists(dir) {
			in.Hint = nearestFolder(dir, runMarks, in.Hint)
		}
		return nil, in // with its hint apart from its message
	}
	return r, err
}

// readInteractions reads a history file, oldest first.
func readInteractions(path string) ([]lib.Interaction, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, input(err, "")
	}
	defer in.Close()
	events, err := device.ReadEvents(in)
	if err != nil {
		return nil, input(fmt.Errorf("%s: %w", path, err), "each line must hold an item ID, or an item ID and a time")
	}
	slices.SortStableFunc(events, func(x, y device.Event) int { return cmp.Compare(x.Time, y.Time) })
	var out []lib.Interaction
	for _, e := range events {
		x := lib.Interaction{Item: e.Item}
		with, err := url.ParseQuery(e.Features)
		if text := with.Get("rating"); err == nil && text != "" {
			rating, err := strconv.ParseFloat(text, 32)
			if err != nil || rating-rating != 0 {
				return nil, input(fmt.Errorf("%s: rating %q of item %s: must be a finite number", path, text,
					e.Item), "")
			}
			x.Rating = float32(rating)
		}
		out = append(out, x)
	}
	return out, nil
}

// writeRunList prints the recommendations of a run.
func writeRunList(w io.Writer, list *runList) error {
	t := report.Table{Header: []string{"", "title", "id", "score"}, Align: "rllr"}
	held := slices.ContainsFunc(list.Items, func(p lib.Item) bool { return p.HeldOut != "" })
	if held {
		t.Header, t.Align = append(t.Header, "held out"), t.Align+"l"
	}
	for i, p := range list.Items {
		row := []any{fmt.Sprint(i + 1), p.Title, p.ID, fmt.Sprintf("%.3f", p.Score)}
		if held {
			row = append(row, p.HeldOut)
		}
		t.Rows = append(t.Rows, row)
	}
	t.Notes = append(t.Notes, fmt.Sprintf("%s on %s, seed %d, after its last round. Seen items are left out.",
		list.Method, list.Dataset, list.Seed))
	if held {
		t.Notes = append(t.Notes, "The validation and test items are the user's own, held out of training.")
	}
	if list.Unknown > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("%s of the history not in the data: ignored.",
			format.Plural(list.Unknown, "item")))
	}
	dropTitles(&t)
	return t.Text(w)
}

// dropTitles removes the second column of a list, the titles, if it is empty.
func dropTitles(t *report.Table) {
	const at = 1
	if slices.ContainsFunc(t.Rows, func(row []any) bool { return row[at] != "" }) {
		return
	}
	t.Header, t.Align = slices.Delete(t.Header, at, at+1), t.Align[:at]+t.Align[at+1:]
	for i, row := range t.Rows {
		t.Rows[i] = slices.Delete(row, at, at+1)
	}
}

// writeList prints recommendations.
func writeList(w io.Writer, list *device.Recommendations) error {
	t := report.Table{Header: []string{"", "title", "id", "score"}, Align: "rllr"}
	filled := device.Basis("")
	for i, p := range list.Items {
		score := "-"
		if p.Basis == device.Personal || p.Basis == device.NewUser {
			score = fmt.Sprintf("%.3f", p.Score)
		} else if p.Basis != list.Basis {
			filled = p.Basis
		}
		t.Rows = append(t.Rows, []any{fmt.Sprint(i + 1), p.Title, p.ID, score})
	}
	if list.Note != "" {
		t.Notes = append(t.Notes, "Not personal: "+list.Note+".")
	} else {
		t.Notes = append(t.Notes, fmt.Sprintf("Based on %s of your history.", format.Plural(list.KnownItems, "item")))
	}
	if order := map[device.Basis]string{
		device.Popular: "popularity by the federation's counts", device.Unranked: "the catalogue",
	}[filled]; order != "" {
		t.Notes = append(t.Notes, "Items without a score fill the list, in the order of "+order+".")
	}
	t.Notes = append(t.Notes, fmt.Sprintf("Model version %d of %q after %s, created %s ago.", list.ModelVersion,
		list.Federation, format.Plural(list.Round, "round"), time.Since(list.ModelCreatedAt).Round(time.Second)))
	dropTitles(&t)
	return t.Text(w)
}
