package experiment

import (
	"fmt"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/study/format"
)

// trainable is the smallest number of rows of a user under leave-one-out: one each to train, validate and test.
const trainable = 3

// CheckData returns an error if no run under the default protocol is possible on the data.
func CheckData(src data.Source, s *Settings) error {
	protocol, err := data.ProtocolNamed("deployed")
	if err != nil {
		return err
	}
	return s.check(src, protocol)
}

// check returns an error that says why a run on the data is impossible, before a split or a method fails on it. Data
// that is generated user by user always suffices.
func (s *Settings) check(src data.Source, p data.Protocol) error {
	set, in := src.(*data.Set)
	if !in {
		return nil
	}
	info := src.Info()
	look := fmt.Sprintf("check the columns that were detected: tacit data describe %s; set them with --columns "+
		"user=NAME,item=NAME", s.Data)
	dropped := ""
	if info.FilteredOut != "" {
		dropped = " after filters dropped " + info.FilteredOut
		look = fmt.Sprintf("keep more rows with --min-rows, --k-core, --threshold or --dedup, or %s", look)
	}
	switch {
	case set.Users() < 2:
		return AsInput(fmt.Errorf("%s has %s%s: a federation requires at least 2", info.Name,
			format.Plural(set.Users(), "user"), dropped), look)
	case set.Items() < 2:
		return AsInput(fmt.Errorf("%s has %s%s: a ranking requires at least 2", info.Name,
			format.Plural(set.Items(), "item"), dropped), look)
	}
	if p.Split == data.LeaveOneOut && set.TestFrom == nil && s.TimeCut == "" {
		return s.checkHistories(set)
	}
	return nil
}

// checkHistories returns an error if fewer than two users can be split, or none can be ranked.
func (s *Settings) checkHistories(set *data.Set) error {
	long, longest, ranked := 0, 0, 0
	seen := make([]int, set.Items()) // the last user seen with the item, plus one
	for u := range set.Users() {
		own := set.Item[set.Start[u]:set.Start[u+1]]
		if longest = max(longest, len(own)); len(own) < trainable {
			continue
		}
		long++
		distinct := 0
		for _, i := range own {
			if seen[i] != u+1 {
				seen[i] = u + 1
				distinct++
			}
		}
		if set.Items()-distinct >= 2 {
			ranked++
		}
	}
	name := set.Info().Name
	switch {
	case long < 2:
		hint := "collect longer histories"
		if set.Info().TimeKind == data.RealTime {
			hint = fmt.Sprintf("tacit run -d %s --protocol temporal --min-rows 1 splits by time instead", s.Data)
		}
		return AsInput(fmt.Errorf("%s has %s with %d interactions or more (the longest history has %d): training, "+
			"validation and test need one each, of at least 2 users", name, format.Plural(long, "user"), trainable,
			longest), hint)
	case ranked == 0:
		return AsInput(fmt.Errorf("no user of %s can be ranked: a ranking needs 2 items that the user has not seen, "+
			"and %s has %d items", name, name, set.Items()), "collect more items, or users with shorter histories")
	}
	return nil
}
