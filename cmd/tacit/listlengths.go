package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tacit-rec/tacit/internal/base/metrics"
)

// atFlag adds the flag that chooses the list lengths of metrics in tables.
func atFlag(fs *pflag.FlagSet, at *string) {
	fs.StringVar(at, "at", "", "list lengths of HR and NDCG in tables, such as 5,10,20")
}

// listLengths parses --at; it returns the usual lengths if it is empty.
func listLengths(at string, usual ...int) ([]int, error) {
	if at == "" {
		return usual, nil
	}
	var out []int
	known := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(metrics.KS)), ", "), "[]")
	for _, word := range strings.Split(at, ",") {
		k, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || !slices.Contains(metrics.KS[:], k) {
			return nil, input(fmt.Errorf("--at %s: %q must be one of %s", at, word, known), "example: --at 5,10,20")
		}
		if !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out, nil
}
