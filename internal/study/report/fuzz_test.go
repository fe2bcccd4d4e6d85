package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/internal/study/result/resulttest"
)

// FuzzLoad holds that any folder gives an error or a run that every writer can
// show, without a panic.
func FuzzLoad(f *testing.F) {
	good := resulttest.Run("pfedrec", "paper", 1, 3, 3)
	one, _ := json.Marshal(good.Result)
	many, _ := json.Marshal(result.CombineSeeds([]*result.Result{good.Result, good.Result}))
	line, _ := json.Marshal(good.Points[0])
	users := []byte("user,rows,valid_rank,test_rank,valid_full_rank,test_full_rank\na,1,1,2147483647,,\n")
	f.Add(one, line, users)
	f.Add(many, line, users)
	f.Add([]byte(`{"method":"m","dataset":"d","protocol":"p","references":{"ease":null},"params":{"a":[{}]}}`),
		[]byte(`{"round":1,"train_loss":-1e308}`), []byte("\n"))
	f.Fuzz(func(t *testing.T, text, metrics, users []byte) {
		dir := t.TempDir()
		resulttest.WriteFile(t, dir, "result.json", text)
		resulttest.WriteFile(t, dir, "metrics.jsonl", metrics)
		resulttest.WriteFile(t, dir, "per_user.csv", users)
		r, err := result.Load(dir)
		if err != nil {
			if !strings.HasPrefix(err.Error(), dir) {
				t.Errorf("error %q does not start with the file", err)
			}
			return
		}
		var b bytes.Buffer
		for _, err := range []error{
			HTML(&b, []*result.Run{r, r}), Markdown(&b, []*result.Run{r}), CSV(&b, []*result.Run{r}),
			Text(&b, r.Result),
		} {
			if err != nil {
				t.Error(err)
			}
		}
	})
}

// FuzzDraw holds that any figures and any search give an error or drawings, without
// a panic.
func FuzzDraw(f *testing.F) {
	some := madeFigures()
	some.Items.Items = some.Items.Items[:4]
	for i := range some.Items.Maps {
		some.Items.Maps[i].XY = some.Items.Maps[i].XY[:4]
	}
	for i := range some.Landscape.Grids { // small, so that many are tried
		g := &some.Landscape.Grids[i]
		g.Axis, g.Loss = g.Axis[:2], [][]float64{g.Loss[0][:2], g.Loss[1][:2]}
	}
	some.Landscape.Grids = some.Landscape.Grids[:1]
	good, err := some.JSON()
	if err != nil {
		f.Fatal(err)
	}
	spectra, _ := json.Marshal(result.Point{Round: 1, Spectra: madeSpectra(1)})
	tuned := `{"method":"m","dataset":"d","protocol":"p","objective":"o","metric":"m","space":{"lr":"1..2","k":"a|b"}}`
	trials := `{"trial":0,"rounds":3,"status":"ok","params":{"lr":1,"k":"a"},"value":0.5}` + "\n" + `{"trial":1,"rounds":3,"status":"ok","params":{"lr":1e300,"k":[1]},"value":-1e308}`
	f.Add(good, spectra, []byte(tuned), []byte(trials))
	f.Add([]byte(`{"schema_version":1,"landscape":{"grids":[{"mode":"a","axis":[0,0],"loss":[[0,1e308],[-1e308,1]]}]}}`), []byte(`{"round":1,"spectra":[{"of":"trained","singular":[0,-1]}]}`), []byte(`{}`), []byte("\n"))
	f.Add([]byte(`{"schema_version":1,"items":{"items":[{},{}],"maps":[{"xy":[[1e308,0],[-1e308,0]]}]},"popularity":{"data":[1],"recommended":[-1],"most":[{"share_of_users":1}]},"inference":{}}`), []byte(`{"round":1}`), []byte(tuned), []byte("{}"))
	text, _ := json.Marshal(resulttest.Run("pfedrec", "paper", 1, 3, 3).Result)
	f.Fuzz(func(t *testing.T, figures, metrics, tuned, trials []byte) {
		run, search := t.TempDir(), t.TempDir()
		resulttest.WriteFile(t, run, "result.json", text)
		resulttest.WriteFile(t, run, "figures.json", figures)
		resulttest.WriteFile(t, run, "metrics.jsonl", metrics)
		resulttest.WriteFile(t, search, "tuned.json", tuned)
		resulttest.WriteFile(t, search, "trials.jsonl", trials)
		for _, dir := range []string{run, search} {
			r, err := result.Load(dir)
			if err != nil {
				if !strings.HasPrefix(err.Error(), dir) {
					t.Errorf("error %q does not start with the file", err)
				}
				continue
			}
			var b bytes.Buffer
			if err := HTML(&b, []*result.Run{r}); err != nil {
				t.Error(err)
			}
			if strings.Contains(b.String(), "NaN") {
				t.Error("the page holds NaN")
			}
			if _, err := Drawings([]*result.Run{r}); err != nil && !strings.Contains(err.Error(), "nothing to draw") {
				t.Error(err)
			}
		}
	})
}
