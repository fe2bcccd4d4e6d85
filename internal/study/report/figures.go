package report

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tacit-rec/tacit/internal/study/chart"
	"github.com/tacit-rec/tacit/internal/study/format"
	"github.com/tacit-rec/tacit/internal/study/result"
)

// uploaded is the test HR@10 over the bytes that all devices have uploaded so far.
func uploaded(points []result.Point) chart.Series {
	s := chart.Series{Plain: true}
	total := 0.0
	for _, p := range points {
		total += float64(max(p.BytesUp, 0))
		if p.Test == nil {
			continue
		}
		if v := result.MetricOf(p.Test.Sampled, "hr@10"); !math.IsNaN(v) && total > 0 {
			s.X, s.Y = append(s.X, total), append(s.Y, v)
		}
	}
	return s
}

// bytesPlot draws accuracy over traffic, for one run or several.
func bytesPlot(lines []chart.Series) *chart.Plot {
	most := 0.0
	for i := range lines {
		for _, x := range lines[i].X {
			most = math.Max(most, x)
		}
	}
	unit, name := 1.0, "B"
	for _, u := range []struct {
		size float64
		name string
	}{{1e3, "kB"}, {1e6, "MB"}, {1e9, "GB"}, {1e12, "TB"}} {
		if most >= 2*u.size {
			unit, name = u.size, u.name
		}
	}
	for i := range lines {
		for k := range lines[i].X {
			lines[i].X[k] /= unit
		}
	}
	return &chart.Plot{
		About: "Test HR@10 by uploaded bytes", X: "uploaded by all devices so far, " + name,
		Y:     "test HR@10, sampled (fraction)",
		Lines: lines, Format: format.Fraction, YZero: true, XZero: true,
	}
}

// bytesTo95 says after how many bytes a run reached 95% of its best HR@10.
func bytesTo95(points []result.Point) string {
	s := uploaded(points)
	if len(s.Y) == 0 {
		return ""
	}
	best := slices.Max(s.Y)
	for i, y := range s.Y {
		if y >= 0.95*best {
			return fmt.Sprintf(" It reaches 95%% of its best value (%s) after %s.", format.Fraction(best),
				format.Size(s.X[i]))
		}
	}
	return ""
}

// spectrumOf is the named spectrum of a point, or nil.
func spectrumOf(p result.Point, of string) *result.Spectrum {
	for i := range p.Spectra {
		if p.Spectra[i].Of == of {
			return &p.Spectra[i]
		}
	}
	return nil
}

var spectrumKinds = []struct{ of, label, class string }{
	{"trained", "trained", "c0"}, {"unit", "unit length", "c1 dash"}, {"all", "all rows", "c2"},
}

// collapseFigures are spectra, and effective rank and abundance over rounds.
func collapseFigures(points []result.Point) []figure {
	var with []result.Point
	for _, p := range points {
		if spectrumOf(p, "trained") != nil {
			with = append(with, p)
		}
	}
	if len(with) == 0 {
		return nil
	}
	spectra := chart.Plot{
		About: "Singular values of the item table", X: "index, largest first",
		Y: "singular value (log scale)", LogY: true,
	}
	classes := []string{"c5", "c4", "c0"}
	picks := []int{0, len(with) / 2, len(with) - 1}
	for k, i := range picks {
		if k > 0 && i == picks[k-1] {
			continue
		}
		s := chart.Series{Label: fmt.Sprintf("round %d", with[i].Round), Class: classes[k], Plain: true}
		for n, v := range spectrumOf(with[i], "trained").Singular {
			s.X, s.Y = append(s.X, float64(n+1)), append(s.Y, v)
		}
		spectra.Lines = append(spectra.Lines, s)
	}
	dims := len(spectrumOf(with[0], "trained").Singular)
	out := []figure{{
		"spectrum", "Spectrum of the item table", "Centred rows of the items with train rows. A flat line uses all " +
			"dimensions; a sudden drop is dimensional collapse: the remaining dimensions are unused.", spectra.Draw(),
		plotTable(&spectra, "index", "singular_value"),
	}}
	for _, m := range []struct {
		name, title, y, note string
		of                   func(*result.Spectrum) float64
	}{
		{
			"effective-rank", "Effective rank over rounds", "effective rank, of " + format.Plural(dims, "dimension"),
			"How many dimensions the rows use (the exponential of the spectrum's entropy). A fall at constant " +
				"accuracy " +
				"is a warning. Untrained rows are noise and look healthy, so trained rows are shown separately.",
			func(s *result.Spectrum) float64 { return s.EffectiveRank },
		},
		{
			"information-abundance", "Information abundance over rounds", "sum of singular values over the largest",
			"A value near 1 means that one direction dominates. With rows of unit length, the long rows of popular " +
				"items " +
				"do not weigh more.", func(s *result.Spectrum) float64 { return s.Abundance },
		},
	} {
		p := chart.Plot{About: m.title, X: "round", Y: m.y, YZero: true, XZero: true}
		for _, k := range spectrumKinds {
			s := chart.Series{Label: k.label, Class: k.class}
			for _, at := range with {
				if sp := spectrumOf(at, k.of); sp != nil {
					s.X, s.Y = append(s.X, float64(at.Round)), append(s.Y, m.of(sp))
				}
			}
			p.Lines = append(p.Lines, s)
		}
		out = append(out, figure{
			m.name, m.title, m.note, p.Draw(),
			plotTable(&p, "round", strings.ReplaceAll(m.name, "-", "_")),
		})
	}
	return slices.DeleteFunc(out, func(f figure) bool { return f.SVG == "" })
}

// inferenceBars draws the metrics with the three item tables.
func inferenceBars(in *result.Inference) (template.HTML, *Table) {
	bars := []chart.Bar{
		{Name: "own tuned", Class: "c0", HR: in.Own[0], NDCG: in.Own[1]},
		{Name: "coordinator's", Class: "c2", HR: in.Base[0], NDCG: in.Base[1]},
	}
	if in.Other != nil {
		bars = append(bars, chart.Bar{Name: "another's", Class: "mute", HR: in.Other[0], NDCG: in.Other[1]})
	}
	t := &Table{Header: []string{"table", "hr@10", "ndcg@10"}}
	for _, b := range bars {
		if !(b.HR >= 0 && b.HR <= 1 && b.NDCG >= 0 && b.NDCG <= 1) {
			return "", t
		}
		t.Rows = append(t.Rows, []any{b.Name, format.Exact(b.HR), format.Exact(b.NDCG)})
	}
	return chart.MetricBars(bars), t
}

// variedSetting is a setting that differs between the rows of a method, grouped by the other settings.
type variedSetting struct {
	method, key string
	values      map[string]map[string]*row // by the other settings that differ, then by value
}

// variedOf finds the settings that differ between rows of one method.
func variedOf(g *group) []variedSetting {
	var out []variedSetting
	var methods []string
	by := map[string][]*row{}
	for _, r := range g.rows {
		m := r.runs[0].Result.Method
		if by[m] == nil {
			methods = append(methods, m)
		}
		by[m] = append(by[m], r)
	}
	for _, m := range methods {
		d := new(settingDiff)
		all := func(r *row) map[string]string {
			res := r.runs[0].Result
			s := settings(res.Params)
			maps.Copy(s, optionsOf(res))
			delete(s, "version")
			return s
		}
		for _, r := range by[m] {
			d.add(all(r))
		}
		for _, key := range slices.Sorted(maps.Keys(d.values)) {
			if len(d.values[key]) < 2 {
				continue
			}
			v := variedSetting{m, key, map[string]map[string]*row{}}
			most := 0
			for _, r := range by[m] {
				s := all(r)
				value := s[key]
				delete(s, key)
				rest := strings.Join(slices.DeleteFunc(d.words(s),
					func(w string) bool { return strings.HasPrefix(w, "epsilon=") }), " ")
				if v.values[rest] == nil {
					v.values[rest] = map[string]*row{}
				}
				v.values[rest][value] = r
				most = max(most, len(v.values[rest]))
			}
			if most > 1 {
				out = append(out, v)
			}
		}
	}
	return out[:min(len(out), 8)]
}

// figures draws HR@10 and NDCG@10 by the setting.
func (v *variedSetting) figures() []figure {
	var values []string
	seen := map[string]bool{}
	for _, rest := range slices.Sorted(maps.Keys(v.values)) {
		for value := range v.values[rest] {
			if !seen[value] {
				seen[value] = true
				values = append(values, value)
			}
		}
	}
	place, p := places(values)
	var out []figure
	for i, m := range []string{"HR@10", "NDCG@10"} {
		q := p
		q.About, q.X, q.Y, q.Format = m+" by "+v.key, v.key, "test "+m+", sampled (fraction)", format.Fraction
		for k, rest := range slices.Sorted(maps.Keys(v.values)) {
			if k == 7 {
				break
			}
			s := chart.Series{
				Label: format.Clip(cmp.Or(rest, v.method), 18), Class: fmt.Sprintf("c%d", k),
				Quiet: len(v.values) == 1, Dots: p.Names != nil && len(v.values) > 1,
			}
			for _, value := range values {
				if r := v.values[rest][value]; r != nil {
					x := r.scores()[i]
					if x.N > 0 {
						s.X, s.Y, s.Bars = append(s.X, place[value]), append(s.Y, x.Mean), append(s.Bars, x.SD)
					}
				}
			}
			q.Lines = append(q.Lines, s)
		}
		name := format.Clip(format.FileName(v.method+"-"+v.key), 60) + "-" +
			strings.ToLower(strings.TrimSuffix(m, "@10"))
		note := "Each point is a row of the table above; bars are the standard deviation over seeds. A value picked " +
			"from this curve is selected on test; tacit tune selects on validation."
		if svg := q.Draw(); svg != "" {
			out = append(out, figure{
				"param-" + name, m + " of " + v.method + " by " + v.key, note, svg,
				plotTable(&q, "value", strings.ToLower(m)),
			})
		}
	}
	return out
}

// places puts values on an axis: numbers by value, on a log scale if they are far apart, and names side by side.
func places(values []string) (map[string]float64, chart.Plot) {
	out := map[string]float64{}
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		x, err := strconv.ParseFloat(v, 64)
		if err != nil || !(math.Abs(x) <= 1e30) {
			slices.Sort(values)
			for i, v := range values {
				out[v] = float64(i)
			}
			return out, chart.Plot{Names: values}
		}
		out[v] = x
		lo, hi = math.Min(lo, x), math.Max(hi, x)
	}
	slices.SortFunc(values, func(a, b string) int { return cmp.Compare(out[a], out[b]) })
	p := chart.Plot{LogX: lo > 0 && hi >= 8*lo}
	if len(values) <= 8 {
		for _, v := range values {
			p.Ticks = append(p.Ticks, out[v])
		}
	}
	return out, p
}

// searchFigures draws a point for each trial of a search, by each setting.
func searchFigures(s *result.Search) []figure {
	last := map[int]result.Trial{} // by trial, the line with most rounds
	most := 0
	for _, t := range s.Trials {
		if t.Status == "ok" && t.Value != nil && (last[t.Trial].Value == nil || t.Rounds > last[t.Trial].Rounds) {
			last[t.Trial] = t
			most = max(most, t.Rounds)
		}
	}
	var out []figure
	for _, key := range slices.Sorted(maps.Keys(s.Space)) {
		var values []string
		for _, n := range slices.Sorted(maps.Keys(last)) {
			if w := format.Value(last[n].Params[key]); last[n].Params[key] != nil && !slices.Contains(values, w) {
				values = append(values, w)
			}
		}
		if len(values) < 2 || len(values) > 5000 {
			continue
		}
		place, p := places(values)
		p.About, p.X, p.Y, p.Format = "Validation "+s.Objective+" by "+key, format.Clip(key, 40),
			fmt.Sprintf("validation %s, %s (fraction)", format.Clip(s.Objective, 20), format.Clip(s.Metric, 20)),
			format.Fraction
		ended, cut := chart.Series{Label: "finished", Class: "c0", Dots: true}, chart.Series{
			Label: "stopped", Class: "mute",
			Dots: true,
		}
		for _, n := range slices.Sorted(maps.Keys(last)) {
			t := last[n]
			if t.Params[key] == nil {
				continue
			}
			to := &ended
			if t.Rounds < most {
				to = &cut
			}
			w := format.Value(t.Params[key])
			to.X, to.Y = append(to.X, place[w]), append(to.Y, *t.Value)
			to.Tips = append(to.Tips, fmt.Sprintf("trial %d: %s after %s, %s=%s", t.Trial, format.Fraction(*t.Value),
				format.Plural(t.Rounds, "round"), format.Clip(key, 30), format.Clip(w, 30)))
		}
		p.Lines = []chart.Series{cut, ended}
		if svg := p.Draw(); svg != "" {
			out = append(out, figure{
				"search-" + format.Clip(format.FileName(key), 40), "Effect of " + format.Clip(key, 40),
				"Each point is a trial after its last round. If the best point is at the edge, the range was too " +
					"small; a " +
					"flat cloud means that the setting does not matter.", svg, plotTable(&p, key, "validation"),
			})
		}
	}
	return out
}
