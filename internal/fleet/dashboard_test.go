package fleet_test

import (
	"context"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/tacit-rec/tacit/internal/browsertest"
	"github.com/tacit-rec/tacit/internal/engine/aggregate"
	"github.com/tacit-rec/tacit/internal/fleet"
)

// The dashboard follows a federation on a real socket; pausing works; no page complains or asks another host.
func TestDashboardFollowsAFederation(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser: run without -short")
	}
	b := browsertest.Chromium(t)
	split := world(t)
	s := settings(split, "fedmf", "dim", "8")
	s.Rounds, s.EvalEvery, s.Deadline = 1000, 3, patience
	if err := s.DP.UnmarshalText([]byte("epsilon=200,delta=1e-3,clip=0.5,min-devices=5,metrics=4")); err != nil {
		t.Fatal(err)
	}
	s.Mean = aggregate.Fixed
	r := open(t, filepath.Join(t.TempDir(), "state"), split, &s)
	web := httptest.NewServer(r.c.Dashboard(nil))
	t.Cleanup(func() {
		web.CloseClientConnections() // of streams, which the server would wait for
		web.Close()
	})
	ctx, cancel := context.WithCancel(context.Background())
	f, err := fleet.New(fleet.Config{
		Server: r.opt, Token: r.token, Split: split, Workers: 2, Deterministic: true, Seed: 5,
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx, uint32(s.Rounds)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		f.Close()
	})

	url := web.URL + "/dashboard/"
	b.Show(browsertest.Looks[0])
	b.Open(url)
	round := `+document.querySelector("#run .big").firstChild.textContent.replace(",", "")`
	b.WaitFor("a third round on the page", round+" >= 3")
	b.WaitFor("an evaluation on the page", `!!document.querySelector("#accuracy .line.model")`)
	b.WaitFor("the budget on the page", `!!document.querySelector("#privacy .arc.spent")`)

	b.Eval(`location.href = "/dashboard/sign-in", true`, new(bool))
	b.WaitFor("the sign-in page", `!!document.getElementById("token")`)
	b.Eval(`document.getElementById("token").value = "operator", document.querySelector("form.stack").submit(), true`,
		new(bool))
	b.WaitFor("the button", `!!document.getElementById("b-pause")`)
	b.Eval(`document.getElementById("b-pause").click(), true`, new(bool))
	b.WaitFor("the notice", `document.querySelector(".notice.good") != null`)
	b.WaitFor("the pause", `!!document.getElementById("b-resume")`)
	if !r.status().Paused {
		t.Error("the coordinator is not paused")
	}
	b.Eval(`document.getElementById("b-resume").click(), true`, new(bool))
	b.WaitFor("the end of the pause", `!!document.getElementById("b-pause")`)
	for _, bad := range b.Complaints(web.URL + "/dashboard/") {
		t.Error(bad)
	}
}
