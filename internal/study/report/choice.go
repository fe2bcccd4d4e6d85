package report

import (
	"fmt"
	"strings"

	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// choiceNote says how the settings came about where the program chose them; else nothing.
func choiceNote(c *result.Choice) string {
	if c == nil || c.Chosen < 0 || c.Chosen >= len(c.Tried) {
		return ""
	}
	var tried []string
	for _, t := range c.Tried {
		tried = append(tried, fmt.Sprintf("%s (%s)", t.Settings, format.Fraction(t.NDCG)))
	}
	return fmt.Sprintf("Settings: %s, chosen by %s on validation items of seed %d, never on test, of: %s. The "+
		"choice took %s.",
		c.Tried[c.Chosen].Settings, strings.ToUpper(c.By), c.Seed, strings.Join(tried, ", "),
		format.Duration(c.Seconds))
}
