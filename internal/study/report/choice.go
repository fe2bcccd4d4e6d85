package report

import (
	"fmt"
	"strings"
)

// chosen says how the settings came about where the program chose them; else nothing.
func (c *Choice) chosen() string {
	if c == nil || c.Chosen < 0 || c.Chosen >= len(c.Tried) {
		return ""
	}
	var tried []string
	for _, t := range c.Tried {
		tried = append(tried, fmt.Sprintf("%s (%s)", t.Settings, frac(t.NDCG)))
	}
	return fmt.Sprintf("Settings: %s, chosen by %s on validation items of seed %d, never on test, of: %s. The "+
		"choice took %s.",
		c.Tried[c.Chosen].Settings, strings.ToUpper(c.By), c.Seed, strings.Join(tried, ", "), took(c.Seconds))
}
