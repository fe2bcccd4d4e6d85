package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tacit-rec/tacit/wire/pb"
	"github.com/tacit-rec/tacit/wire/pb/pbconnect"
)

func (a *app) adminItems() *cobra.Command {
	return a.call("items FILE", "Add items, or change and retire them: a CSV file of id, title, retired; its first line may name columns of features", "  tacit admin items new.csv", cobra.ExactArgs(1), func(ctx context.Context, admin pbconnect.AdminClient, words []string) error {
		f, err := os.Open(words[0])
		if err != nil {
			return input(err, "")
		}
		defer f.Close()
		items, err := readItems(f, words[0])
		if err != nil {
			return err
		}
		r, err := admin.Items(ctx, &pb.ItemsRequest{Items: items})
		if err != nil {
			return err
		}
		return a.result(r, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%d items are added and %d changed, from the next round on: catalogue %d\n", r.Added, r.Changed, r.Version)
			return err
		})
	})
}

// readItems reads a CSV file of id, title and, maybe, whether the item is retired. A head
// may name more columns, which are features of the items; an empty field says nothing.
func readItems(r io.Reader, name string) ([]*pb.Item, error) {
	c := csv.NewReader(bufio.NewReader(io.LimitReader(r, 1<<30)))
	c.FieldsPerRecord = -1
	var out []*pb.Item
	var head []string
	for line := 1; ; line++ {
		f, err := c.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, input(fmt.Errorf("%s: %w", name, err), "want lines of id,title")
		}
		if line == 1 && strings.EqualFold(f[0], "id") {
			head = f
			continue
		}
		it := &pb.Item{Id: f[0]}
		if len(f) > 1 {
			it.Title = clip(f[1], 200)
		}
		if len(f) > 2 {
			it.Retired = f[2] == "true" || f[2] == "1" || f[2] == "yes"
		}
		for i := 3; i < len(f); i++ {
			if i >= len(head) {
				return nil, input(fmt.Errorf("line %d of %s has %d columns", line, name, len(f)), "a first line such as id,title,retired,genre names what follows the third")
			}
			if value := strings.TrimSpace(f[i]); value != "" {
				it.Features = append(it.Features, &pb.Setting{Key: strings.TrimSpace(head[i]), Value: value})
			}
		}
		out = append(out, it)
	}
	if len(out) == 0 {
		return nil, input(fmt.Errorf("%s has no items", name), "want lines of id,title")
	}
	return out, nil
}
