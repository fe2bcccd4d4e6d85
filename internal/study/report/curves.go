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
)

// uploaded is the test HR@10 by what all devices have uploaded so far, in bytes.
func uploaded(points []Point) series {
	s := series{plain: true}
	total := 0.0
	for _, p := range points {
		total += float64(max(p.BytesUp, 0))
		if p.Test == nil {
			continue
		}
		if v := at(p.Test.Sampled, "hr@10"); !math.IsNaN(v) && total > 0 {
			s.xs, s.ys = append(s.xs, total), append(s.ys, v)
		}
	}
	return s
}

// bytesPlot sets accuracy against traffic, for one run or several.
func bytesPlot(lines []series) *plot {
	most := 0.0
	for i := range lines {
		for _, x := range lines[i].xs {
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
		for k := range lines[i].xs {
			lines[i].xs[k] /= unit
		}
	}
	return &plot{
		about: "Test HR@10 by uploaded bytes", x: "uploaded by all devices so far, " + name,
		y:     "test HR@10, sampled (fraction)",
		lines: lines, format: frac, fromZero: true, xZero: true,
	}
}

// most95 says after how many bytes a run had 95 % of what it reached.
func most95(points []Point) string {
	s := uploaded(points)
	if len(s.ys) == 0 {
		return ""
	}
	best := slices.Max(s.ys)
	for i, y := range s.ys {
		if y >= 0.95*best {
			return fmt.Sprintf(" 95%% of the best (%s) was reached after %s.", frac(best), size(s.xs[i]))
		}
	}
	return ""
}

// spectrumOf is the named spectrum of a point, or nil.
func spectrumOf(p Point, of string) *Spectrum {
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
func collapseFigures(points []Point) []figure {
	var with []Point
	for _, p := range points {
		if spectrumOf(p, "trained") != nil {
			with = append(with, p)
		}
	}
	if len(with) == 0 {
		return nil
	}
	spectra := plot{
		about: "Singular values of the item table", x: "index, largest first",
		y: "singular value (log scale)", logY: true,
	}
	classes := []string{"c5", "c4", "c0"}
	picks := []int{0, len(with) / 2, len(with) - 1}
	for k, i := range picks {
		if k > 0 && i == picks[k-1] {
			continue
		}
		s := series{label: fmt.Sprintf("round %d", with[i].Round), class: classes[k], plain: true}
		for n, v := range spectrumOf(with[i], "trained").Singular {
			s.xs, s.ys = append(s.xs, float64(n+1)), append(s.ys, v)
		}
		spectra.lines = append(spectra.lines, s)
	}
	dims := len(spectrumOf(with[0], "trained").Singular)
	out := []figure{{
		"spectrum", "Spectrum of the item table", "Rows of items with a train row, centred. A flat " +
			"line uses all dimensions; a cliff is dimensional collapse: the rest hold nothing.", spectra.draw(),
		spectra.table("index", "singular_value"),
	}}
	for _, m := range []struct {
		name, title, y, note string
		of                   func(*Spectrum) float64
	}{
		{
			"effective-rank", "Effective rank over rounds", "effective rank, of " + plural(dims, "dimension"),
			"How many dimensions the rows really use (exp of the entropy of the spectrum). A fall while accuracy stands still is a warning. Rows nobody trains stay noise and look healthy: so the trained ones stand apart.", func(s *Spectrum) float64 { return s.EffectiveRank },
		},
		{
			"information-abundance", "Information abundance over rounds", "sum of singular values over the largest",
			"Near 1, one direction has it all. With rows of unit length the popular items' long rows do not count for more.", func(s *Spectrum) float64 { return s.Abundance },
		},
	} {
		p := plot{about: m.title, x: "round", y: m.y, fromZero: true, xZero: true}
		for _, k := range spectrumKinds {
			s := series{label: k.label, class: k.class}
			for _, at := range with {
				if sp := spectrumOf(at, k.of); sp != nil {
					s.xs, s.ys = append(s.xs, float64(at.Round)), append(s.ys, m.of(sp))
				}
			}
			p.lines = append(p.lines, s)
		}
		out = append(out, figure{
			m.name, m.title, m.note, p.draw(),
			p.table("round", strings.ReplaceAll(m.name, "-", "_")),
		})
	}
	return slices.DeleteFunc(out, func(f figure) bool { return f.SVG == "" })
}

// inferenceBars draws the three tables.
func inferenceBars(in *Inference) (template.HTML, *Table) {
	bars := []bar{
		{"own tuned", "c0", in.Own[0], in.Own[1], ""},
		{"coordinator's", "c2", in.Base[0], in.Base[1], ""},
	}
	if in.Other != nil {
		bars = append(bars, bar{"another's", "mute", in.Other[0], in.Other[1], ""})
	}
	t := &Table{Header: []string{"table", "hr@10", "ndcg@10"}}
	for _, b := range bars {
		if !(b.hr >= 0 && b.hr <= 1 && b.ndcg >= 0 && b.ndcg <= 1) {
			return "", t
		}
		t.Rows = append(t.Rows, []any{b.name, exact(b.hr), exact(b.ndcg)})
	}
	return refBars(bars), t
}

// varied is a setting that differs between the rows of a method, with what is the
// same in all but it.
type varied struct {
	method, key string
	values      map[string]map[string]*row // by the other settings that differ, then by value
}

// variedOf finds the settings that differ between rows of one method.
func variedOf(g *group) []varied {
	var out []varied
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
		d := new(differ)
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
			v := varied{m, key, map[string]map[string]*row{}}
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
func (v *varied) figures() []figure {
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
		q.about, q.x, q.y, q.format = m+" by "+v.key, v.key, "test "+m+", sampled (fraction)", frac
		for k, rest := range slices.Sorted(maps.Keys(v.values)) {
			if k == 7 {
				break
			}
			s := series{
				label: clip(cmp.Or(rest, v.method), 18), class: fmt.Sprintf("c%d", k),
				quiet: len(v.values) == 1, dots: p.names != nil && len(v.values) > 1,
			}
			for _, value := range values {
				if r := v.values[rest][value]; r != nil {
					x := r.scores()[i]
					if x.n > 0 {
						s.xs, s.ys, s.bars = append(s.xs, place[value]), append(s.ys, x.mean), append(s.bars, x.sd)
					}
				}
			}
			q.lines = append(q.lines, s)
		}
		name := clip(file(v.method+"-"+v.key), 60) + "-" + strings.ToLower(strings.TrimSuffix(m, "@10"))
		note := "Each point is a row of the table above; bars are the standard deviation over seeds. Values chosen " +
			"by looking at this curve were chosen on test: tacit tune chooses on validation."
		if svg := q.draw(); svg != "" {
			out = append(out, figure{
				"param-" + name, m + " of " + v.method + " by " + v.key, note, svg,
				q.table("value", strings.ToLower(m)),
			})
		}
	}
	return out
}

// places puts values on an axis: numbers where they are, on a log scale where they
// are far apart, and names one beside the other.
func places(values []string) (map[string]float64, plot) {
	out := map[string]float64{}
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		x, err := strconv.ParseFloat(v, 64)
		if err != nil || !sane(x) {
			slices.Sort(values)
			for i, v := range values {
				out[v] = float64(i)
			}
			return out, plot{names: values}
		}
		out[v] = x
		lo, hi = math.Min(lo, x), math.Max(hi, x)
	}
	slices.SortFunc(values, func(a, b string) int { return cmp.Compare(out[a], out[b]) })
	p := plot{logX: lo > 0 && hi >= 8*lo}
	if len(values) <= 8 {
		for _, v := range values {
			p.at = append(p.at, out[v])
		}
	}
	return out, p
}

// file makes a name fit for a file of a text that may be anything.
func file(s string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '+' {
			return r
		}
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return '-'
	}, s), "-")
}

// figures draws what a search tried: a point for each trial, by each setting.
func (s *Search) figures() []figure {
	last := map[int]Trial{} // by trial, the line with most rounds
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
			if w := word(last[n].Params[key]); last[n].Params[key] != nil && !slices.Contains(values, w) {
				values = append(values, w)
			}
		}
		if len(values) < 2 || len(values) > 5000 {
			continue
		}
		place, p := places(values)
		p.about, p.x, p.y, p.format = "Validation "+s.Objective+" by "+key, clip(key, 40),
			fmt.Sprintf("validation %s, %s (fraction)", clip(s.Objective, 20), clip(s.Metric, 20)), frac
		ended, cut := series{label: "to the end", class: "c0", dots: true}, series{
			label: "stopped", class: "mute",
			dots: true,
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
			w := word(t.Params[key])
			to.xs, to.ys = append(to.xs, place[w]), append(to.ys, *t.Value)
			to.tips = append(to.tips, fmt.Sprintf("trial %d: %s after %s, %s=%s", t.Trial, frac(*t.Value),
				plural(t.Rounds, "round"), clip(key, 30), clip(w, 30)))
		}
		p.lines = []series{cut, ended}
		if svg := p.draw(); svg != "" {
			out = append(out, figure{
				"search-" + clip(file(key), 40), "What " + clip(key, 40) + " did",
				"Each point is a trial after its last round. A best point at the edge says that the range was too small; a flat cloud, that the setting does not matter.", svg, p.table(key, "validation"),
			})
		}
	}
	return out
}
