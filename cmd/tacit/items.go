package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tacit-rec/tacit/coordinator"
	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/internal/study/format"
)

func (a *app) adminItems() *cobra.Command {
	return a.adminCommand("items [FILE]", "List the items, or change them from a CSV file (id, title, retired)",
		"  tacit admin items new.csv\n  tacit admin items > items.csv", maxArgs(1),
		func(ctx context.Context, admin *coordinator.AdminClient, words []string) error {
			if len(words) == 0 {
				return a.listItems(ctx, admin)
			}
			f, err := os.Open(words[0])
			if err != nil {
				return input(err, "")
			}
			defer f.Close()
			items, err := readItems(f, words[0])
			if err != nil {
				return err
			}
			r, err := admin.Items(ctx, items)
			if err != nil {
				return err
			}
			return a.result(r, func(w io.Writer) error {
				more := ""
				if r.Waiting > 0 {
					more = fmt.Sprintf("; %s from before also waiting", format.Plural(r.Waiting, "item"))
				}
				_, err := fmt.Fprintf(w, "added %s and changed %d, from the next round on (catalogue version %d%s)\n",
					format.Plural(r.Added, "item"), r.Changed, r.Version, more)
				return err
			})
		})
}

// listItems prints the catalogue as a CSV file.
func (a *app) listItems(ctx context.Context, admin *coordinator.AdminClient) error {
	all := []coordinator.ListedItem{}
	for from := 0; ; {
		page, err := admin.ListItems(ctx, from)
		if err != nil {
			return err
		}
		all = append(all, page.Items...)
		if from = page.Next; from == 0 {
			break
		}
	}
	return a.result(all, func(out io.Writer) error {
		w := csv.NewWriter(out)
		err := w.Write([]string{"id", "title", "retired"})
		for _, x := range all {
			err = errors.Join(err, w.Write([]string{x.ID, x.Title, strconv.FormatBool(x.Retired)}))
		}
		w.Flush()
		return errors.Join(err, w.Error())
	})
}

// itemsHint describes a file of items.
const itemsHint = "the first line must name the columns: id, and optionally title, retired and features of the run"

// readItems reads a CSV file of items. Its first line names the columns: id, and optionally title,
// retired and features of the items. Empty fields are ignored.
func readItems(r io.Reader, name string) ([]*pb.Item, error) {
	c := csv.NewReader(bufio.NewReader(io.LimitReader(r, 1<<30)))
	c.FieldsPerRecord = -1
	var out []*pb.Item
	var head []string
	seen := map[string]int{}
	for {
		f, err := c.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, input(fmt.Errorf("%s: %w", name, err), "fields with quotes or commas must be in double quotes")
		}
		if head == nil {
			if head, err = itemsHead(f); err != nil {
				return nil, input(fmt.Errorf("%s: %w", name, err), itemsHint)
			}
			continue
		}
		line, _ := c.FieldPos(0)
		it, err := itemOf(head, f)
		if before := seen[it.GetId()]; err == nil && before > 0 {
			err = fmt.Errorf("item %q is already in line %d", it.Id, before)
		}
		if err != nil {
			return nil, input(fmt.Errorf("line %d of %s: %w", line, name, err), "correct the line; nothing was changed")
		}
		seen[it.Id] = line
		out = append(out, it)
	}
	if len(out) == 0 {
		return nil, input(fmt.Errorf("%s has no items", name), itemsHint)
	}
	return out, nil
}

// itemsHead returns the names of the columns.
func itemsHead(f []string) ([]string, error) {
	var head []string
	for _, name := range f {
		name = strings.TrimSpace(strings.TrimPrefix(name, "\ufeff")) // that spreadsheets write
		for _, ours := range []string{"id", "title", "retired"} {
			if strings.EqualFold(name, ours) {
				name = ours
			}
		}
		if name == "" || slices.Contains(head, name) {
			return nil, fmt.Errorf("invalid column %q in the first line: names must be unique and not empty", name)
		}
		head = append(head, name)
	}
	if !slices.Contains(head, "id") {
		return nil, fmt.Errorf("the first line has no column id: %s", clip(strings.Join(f, ","), 80))
	}
	return head, nil
}

// itemOf reads one line.
func itemOf(head, f []string) (*pb.Item, error) {
	if len(f) > len(head) {
		return nil, fmt.Errorf("%d fields, but the first line names %d", len(f), len(head))
	}
	it := &pb.Item{}
	for i, value := range f {
		switch value = strings.TrimSpace(value); head[i] {
		case "id":
			it.Id = value
		case "title":
			it.Title = clip(value, 200)
		case "retired":
			switch strings.ToLower(value) {
			case "true", "1", "yes":
				it.Retired = true
			case "", "false", "0", "no":
			default:
				return nil, fmt.Errorf("retired = %q: must be true, 1, yes, false, 0, no or empty", value)
			}
		default:
			if value != "" {
				it.Features = append(it.Features, &pb.Setting{Key: head[i], Value: value})
			}
		}
	}
	if it.Id == "" {
		return nil, errors.New("the id is empty")
	}
	return it, nil
}
