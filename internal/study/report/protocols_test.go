package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/internal/study/result/resulttest"
)

// Runs of the same method and data under two protocols are compared once, on top, and seeds after the first are folded.
func TestProtocolsAreComparedOnTop(t *testing.T) {
	runs := twoProtocols()
	var b bytes.Buffer
	if err := HTML(&b, runs); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	top := strings.Index(page, "Protocols side by side")
	if top < 0 || strings.Count(page, "Protocols side by side") != 1 || top > strings.Index(page, `<nav aria-label="Runs"`) {
		t.Error("the comparison of protocols is not on top, once")
	}
	for _, want := range []string{"2 runs, 2 seeds each", "paper (leaks)", "deployed (does not leak)", "popularity"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(page, `<details class="fold">`); n != 2 {
		t.Errorf("%d seeds are folded, want the second of each run", n)
	}
	d, err := ProtocolFigure(runs)
	if err != nil || d == nil || !strings.HasPrefix(string(d.CSV), "name,paper,deployed\n") ||
		!strings.Contains(string(d.SVG), "<svg") {
		t.Errorf("figure %+v, %v", d, err)
	}
	if d, err := ProtocolFigure(runs[:1]); d != nil || err != nil {
		t.Errorf("one protocol has the figure %v, %v", d, err)
	}
}

func TestEqualNotesAreShownOnce(t *testing.T) {
	table := func() tableView { return tableView{Notes: []string{"letters", "leaks"}} }
	p := page{Groups: []groupView{{Table: table()}}, Sections: []section{{Table: table()}, {Table: table()}}}
	p.Sections[1].Table.Notes = []string{"letters", "another"}
	p.notesOnce()
	if n := p.Groups[0].Table.Notes; len(n) != 2 {
		t.Errorf("the first table has the notes %q", n)
	}
	if n := p.Sections[0].Table.Notes; len(n) != 0 {
		t.Errorf("the second table repeats %q", n)
	}
	if n := p.Sections[1].Table.Notes; len(n) != 1 || n[0] != "another" {
		t.Errorf("the third table has the notes %q", n)
	}
}

// twoProtocols returns a run under paper and one under deployed, with two seeds each.
func twoProtocols() []*result.Run {
	var out []*result.Run
	for _, protocol := range []string{"paper", "deployed"} {
		seeds := resulttest.Seeds("pfedrec", protocol, 2)
		out = append(out, &result.Run{Dir: protocol, Result: seeds[0].Result, Seeds: seeds})
	}
	return out
}
