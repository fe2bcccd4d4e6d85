package bench

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/tacit-rec/tacit/internal/study/report"
)

// references are times of other programs for one round of PFedRec (dimension 32, batch 256, 4 negatives,
// all users, training only), in milliseconds. They were measured on one machine with 16 cores of an
// AVX-512 Xeon and an NVIDIA H200; "2 cores" is pinned to two of the cores.
var references = []struct {
	program   string
	ms100, ms float64 // ML-100K, ML-1M; 0 if not measured
}{
	{"the authors' PyTorch code, H200", 13_400, 114_700},
	{"the authors' PyTorch code, 2 cores", 9_200, 81_400},
	{"batched PyTorch over all users, 2 cores", 579, 0},
	{"batched PyTorch over all users, H200", 6.4, 40},
	{"a naive Go loop, 2 cores", 100, 974},
	{"a naive Go loop, 16 cores", 24, 160},
}

func number(x float64) string {
	switch {
	case x == 0:
		return "-"
	case x >= 1000:
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

func tables(r *Report) []*report.Table {
	kernels := &report.Table{Title: "Kernels, one core", Header: []string{
		"kernel", "shape", "ns", "per", "GFLOP/s",
		"of peak", "GB/s",
	}, Align: "llrlrrr"}
	for _, k := range r.Kernels {
		share := "-"
		if k.GFlops > 0 {
			share = fmt.Sprintf("%.0f %%", 100*k.OfPeak)
		}
		kernels.Rows = append(kernels.Rows, []any{
			k.Name, k.Shape, number(k.NS), k.Per, number(k.GFlops), share,
			number(k.GBs),
		})
	}
	rounds := &report.Table{
		Title: "One round, training only",
		Header: []string{
			"method", "data", "devices", "samples", "goroutines", "ms (median)", "ms (best)",
			"ns per sample and core", "naive loop, ms", "ratio",
		},
		Align: "llrrrrrrrr",
	}
	if r.Quick {
		rounds.Notes = []string{"Rounds of " + strings.Join(quickMethods, ", ") +
			" only; tacit bench without --quick measures every method."}
	}
	for _, x := range r.Rounds {
		ratio := "-"
		if x.Naive > 0 {
			ratio = fmt.Sprintf("%.1f×", x.Naive)
		}
		rounds.Rows = append(rounds.Rows, []any{
			x.Method, x.Data, fmt.Sprint(x.Devices), fmt.Sprint(x.Samples), fmt.Sprint(x.Jobs), number(x.MS),
			number(x.Best),
			number(x.MS * 1e6 / float64(x.Samples) * float64(x.Jobs)), number(x.NaiveMS), ratio,
		})
	}
	whole := &report.Table{
		Title: "Ranking and whole runs", Header: []string{"what", "data", "goroutines", "time"},
		Align: "llrr",
	}
	for _, x := range r.Rankings {
		whole.Rows = append(whole.Rows, []any{fmt.Sprintf("full ranking of %d users over %d items, with lists",
			x.Users, x.Items), x.Data, fmt.Sprint(x.Jobs), number(x.MS) + " ms"})
	}
	for _, x := range r.Runs {
		what := fmt.Sprintf("%d rounds of pfedrec under %s, evaluated after each (HR@10 %.4f)", x.Rounds, x.Protocol,
			x.HR10)
		whole.Rows = append(whole.Rows, []any{what, x.Data, fmt.Sprint(x.Jobs), number(x.Seconds) + " s"})
	}
	return []*report.Table{kernels, rounds, compared(r), whole}
}

// compared compares our rounds of PFedRec with the references.
func compared(r *Report) *report.Table {
	t := &report.Table{Title: "Compared with other programs, one round of PFedRec", Header: []string{
		"program", "ML-100K, ms",
		"ratio to Tacit", "ML-1M, ms", "ratio to Tacit",
	}, Align: "lrrrr"}
	ours := func(set string) float64 {
		for _, x := range r.Rounds {
			if x.Method == "pfedrec" && x.Data == set && x.Jobs == r.Jobs {
				return x.MS
			}
		}
		return 0
	}
	a, b := ours("ml-100k"), ours("ml-1m")
	times := func(their, our float64) string {
		if their == 0 || our == 0 {
			return "-"
		}
		return fmt.Sprintf("about %s×", twoDigits(their/our))
	}
	for _, x := range references {
		t.Rows = append(t.Rows, []any{x.program, number(x.ms100), times(x.ms100, a), number(x.ms), times(x.ms, b)})
	}
	t.Rows = append(t.Rows, []any{
		fmt.Sprintf("Tacit, %d goroutines, this machine", r.Jobs), number(a), "", number(b),
		"",
	})
	t.Notes = []string{"The other programs were measured on another machine (16 cores of an AVX-512 Xeon, one " +
		"H200), so " +
		"these ratios are rough; the naive loop in the table above ran on this machine, between our rounds."}
	return t
}

// twoDigits rounds to two digits: the times are from different machines.
func twoDigits(x float64) string {
	unit := 1.0
	for x/unit >= 100 {
		unit *= 10
	}
	if x < 10 {
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", math.Round(x/unit)*unit)
}

func machine(r *Report) string {
	return fmt.Sprintf("%s, %d cores, kernels: %s, %s, commit %s", r.CPU, r.Cores, r.Kernel, r.Go, r.Commit)
}

// peakText describes the peak rates.
func peakText(r *Report) string {
	return fmt.Sprintf("Peak: %s GFLOP/s of separate multiplications and additions on one core, %s on %d; %s "+
		"GB/s from "+
		"memory on one core, %s on %d.",
		number(r.Peak.FlopsCore), number(r.Peak.FlopsAll), r.Jobs, number(r.Peak.BytesCore), number(r.Peak.BytesAll),
		r.Jobs)
}

// Text writes the report for a terminal.
func Text(w io.Writer, r *Report) error {
	fmt.Fprintf(w, "%s\n%s\n", machine(r), peakText(r))
	for _, t := range tables(r) {
		if len(t.Rows) == 0 { // interrupted before
			continue
		}
		fmt.Fprintln(w)
		if err := t.Text(w); err != nil {
			return err
		}
	}
	return nil
}

// Markdown writes docs/performance.md.
func Markdown(w io.Writer, r *Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Performance\n\nGenerated by `tacit bench -o docs/performance.md`; do not edit it by "+
		"hand.\n\nMachine: %s.\n\n%s\n\n", machine(r), peakText(r))
	b.WriteString(explanation)
	b.WriteString(contractCost)
	for _, t := range tables(r) {
		b.WriteString("\n")
		if err := t.Markdown(&b); err != nil {
			return err
		}
	}
	b.WriteString(maskedRounds)
	_, err := io.WriteString(w, b.String())
	return err
}

// maskedRounds is measured by hand, because coordinator and devices are separate programs.
const maskedRounds = `
## Masked rounds over the wire

1,000 devices of the synthetic world, of which 5 % drop out before they share keys and 5 % before they
upload, with coordinator and devices on the same 2 cores of a busy machine:

    tacit serve --state bench &
    tacit fleet --state bench -d world --world users=1000,items=1682,mean-rows=40,seed=1 -m ials-next \
      --secagg on --rounds 3 --leave 0,0.05,0.05,0 --deadline 60s
    awk '{print ($14+$15)/100 " s"}' /proc/$!/stat

| | coordinator's processor time | attempts |
|---|---:|---:|
| before calls were held (commit c327809) | 43.1 s for 3 rounds: 14.4 s a round | 3 |
| now | 11.2 s for 3 rounds: 3.7 s a round | 3 |

Both include enrolment. Most of the time was spent on devices that asked whether the next step had begun: a call costs
about 0.25 ms, of which half is its signature. Now calls are held until the step begins, and simulated
devices that dropped out check in less often. What remains of a round: about 12,000 signed calls, and
0.7 s to remove the masks, of which most is for the devices that dropped out after sharing keys.
`

const explanation = `## Where the time goes

A sample of PFedRec at dimension 32 takes two dot products, two sigmoids, one weighted sum and one row
update. A batch of 256 samples takes seven kernel calls, so the cost per sample is arithmetic and
access to the rows:

1. **Draw** the negatives: eight random generators in parallel, and one bit per item that is excluded.
2. **Repeats, Resolve**: every sample gets a row to read and a row to write. If a device touches an
   item once in a round, the row is read from the shared table and its change is added to the sums of
   the shard; only rows that are touched again are copied.
3. **Dots, BCEGrad, WSum** and a step of the score function; **Dots, BCEGrad, Scat** for the rows.
4. **Fold** adds the copied rows; at the end of the round, **Merge** adds the shards in a fixed order.

For ML-100K and ML-1M, the table and the sums of one shard fit into the second-level cache, and the
kernels are limited by arithmetic and by loads from that cache. Products are rounded before they are
added (no fused multiply-add). This makes AVX2, AVX-512, NEON, js/wasm and pure Go agree to the bit, and costs
up to half of the multiply-add rate. Above about 15,000 rows of 32 numbers the rows no longer fit, and
Dots and Scat are limited by memory: see the row for 100,000 items.

Rounds scale with cores up to the number of shards (16 to 64, which depends on the data and never on
the machine, so that the number of workers cannot change the result). Merging shards does not scale.

### Large catalogues

- Full ranking scores 16 users at a time, 256 items after 256, so that a piece of the item table stays in a
  core's cache. With rows of 64 numbers a score takes 5.8 to 6.8 ns of one core in pieces of 64 to 4,096 items,
  and 7.2 ns if every user reads a table of 55,000 items alone; a product of matrices took twice as long
  before products became faster.
- Evaluation is limited to 400 million scores (` + "`" + `--eval-users auto` + "`" + `): 7,272 of 40,000 users for 55,000 items.
- A round reads and clears only the touched rows of large sums. Its server step is proportional to the
  catalogue.
`

// contractCost is measured by hand, because the loop that it compares with is not part of the program.
const contractCost = `
### What the method contract costs

The bare loop does the same work without the contract: precomputed exclusion bits, the AVX2 kernels
called directly without checks of row numbers, negatives of one positive that may be equal, and no
record of moves for scoring. It was rebuilt from the notes of the first prototype and is not part of
the program. Its rounds ran between ours in one process, on a machine shared with other work, so the
figures are the ratio of median processor times (speed of the bare loop = 1):

| PFedRec | ML-100K, 1 goroutine | ML-1M, 2 goroutines |
|---|---:|---:|
| AVX2 kernels | 0.83 | 0.80 to 0.84 |
| AVX-512 for Dots, WSum, Scat, Gather, Fold, BCEGrad and the checks | 0.92 | 1.02 |
| cheaper sampling (below) | 1.02 to 1.12 (3 runs) | 1.09 (1 run) |

The first row compares equal kernels: there the contract costs about 17 %. The rest is not a smaller
contract but faster kernels, which the bare loop would gain from as well. Kernels alone, rows of 32,
processor time, ns per row or number, AVX2 beside AVX-512 on the same machine: Dots 5.2 and 3.7, WSum
4.7 and 3.3, Scat 5.9 and 3.8 (table of 1,682 rows), Fold 14.6 and 6.6, BCEGrad 2.3 and 1.4, Draw 2.8 and
0.8 (the bits of up to 4,096 items stay in registers). Resolve went from 2.2 to 1.4 without a gather
instruction. A round of FedRAP on ML-100K takes about 0.9 of its former processor time (few pairs of
runs on a busy machine, between 0.78 and 1.35: weak evidence), because rows that lag behind weight decay are rescaled in
one call. All results have the same bits as before.

    tacit bench --sets ml-100k,ml-1m -j 2    # kernels and rounds of this machine
    go test -run '^$' -bench . ./vec
`
