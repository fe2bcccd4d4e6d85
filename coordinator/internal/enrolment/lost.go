package enrolment

import (
	"encoding/json"
	"fmt"
	"slices"
)

// DescribeLost says what a repair lost of the registry, as far as the dropped records are readable.
func DescribeLost(dropped map[string][][]byte) (out []string) {
	ids := map[string][]uint32{}
	for _, record := range dropped[logName] {
		var all []change
		if json.Unmarshal(record, &all) != nil {
			continue
		}
		for _, c := range all {
			if !slices.Contains(ids[c.Op], c.ID) {
				ids[c.Op] = append(ids[c.Op], c.ID)
			}
		}
	}
	for _, what := range []struct{ op, text string }{
		{opRevoke, "the revocation of devices %v: revoke each again with tacit admin revoke ID"},
		{opExclude, "the exclusion of devices %v: revoke each with tacit admin revoke ID"},
		{opLeave, "that devices %v left: they count as enrolled and become overdue"},
		{opEnrol, "the enrolment of devices %v: they enrol again with a token"},
		{opReadmit, "that devices %v were readmitted: tacit admin readmit ID"},
	} {
		if list := ids[what.op]; len(list) > 0 {
			slices.Sort(list)
			out = append(out, fmt.Sprintf(what.text, list))
		}
	}
	return out
}
