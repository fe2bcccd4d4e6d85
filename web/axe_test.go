package web_test

import (
	"flag"
	"os"
	"testing"
)

// axeFile is axe-core's script, which is not part of this repository: npm install axe-core; then
// go test ./web -run Chromium -args -dist DIST -axe node_modules/axe-core/axe.min.js
var axeFile = flag.String("axe", "", "axe.min.js of axe-core, to check accessibility")

// axe checks the accessibility of the page with axe-core.
func (b *browser) axe(t *testing.T) {
	t.Helper()
	if *axeFile == "" {
		t.Log("NOT RUN: axe-core (npm install axe-core; -args -axe FILE)")
		return
	}
	script, err := os.ReadFile(*axeFile)
	if err != nil {
		t.Fatal(err)
	}
	var zero int
	b.Eval(string(script)+"\n;0", &zero)
	var found []struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML string }
	}
	for _, scheme := range []string{"light", "dark"} {
		b.size(1300, scheme)
		b.Eval(`axe.run().then(r => r.violations.map(v => ({ID: v.id, Impact: v.impact, Help: v.help,
			Nodes: v.nodes.map(n => ({HTML: n.html}))})))`, &found)
		for _, v := range found {
			t.Errorf("axe-core, %s: %s (%s): %s: %v", scheme, v.ID, v.Impact, v.Help, v.Nodes)
		}
	}
	b.size(1300, "light")
}
