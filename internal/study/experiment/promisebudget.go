package experiment

// budgetedPromises are the runs of methods that are made for a budget. Settings were
// chosen on validation, at epsilon 10 by some forty runs and at others by a few, with
// seed 1; a smaller budget has fewer rounds, fewer numbers per item and a smaller head.
func budgetedPromises() []Promise {
	var out []Promise
	add := func(method, set, all string, rows ...[2]string) {
		for _, r := range rows {
			dp := "dp=none "
			if r[0] != "none" {
				dp = "dp=epsilon=" + r[0] + " "
			}
			out = append(out, Promise{method, set, r[0], dp + r[1] + all})
		}
	}
	const (
		newest = " rho=0.7 boost=5"
		head   = " fade=0.8 old=0.02 flat=0.3"
		blend  = " grad-share=0.8 blend=0.2"
	)
	add("norm-grad", "ml-100k", " a0=0.3",
		[2]string{"none", "rounds=20 dim=16"},
		[2]string{"20", "rounds=20 dim=16"},
		[2]string{"10", "rounds=15 dim=8"},
		[2]string{"3", "rounds=5 dim=4"},
		[2]string{"1", "rounds=3 dim=2"})
	add("oneshot", "ml-100k", " fade=0.8 old=0.05 flat=0 rounds=2",
		[2]string{"none", "head-items=1000"},
		[2]string{"20", "head-items=1000"},
		[2]string{"10", "head-items=1000"},
		[2]string{"3", "head-items=600"},
		[2]string{"1", "head-items=400"})
	add("tacit-private", "ml-100k", " a0=0.3 head-items=800 fade=0.8 old=0.05 flat=0"+blend,
		[2]string{"none", "rounds=22 dim=16"},
		[2]string{"20", "rounds=22 dim=16"},
		[2]string{"10", "rounds=17 dim=8"},
		[2]string{"3", "rounds=7 dim=4"},
		[2]string{"1", "rounds=5 dim=2"})
	add("norm-grad", "ml-1m", " a0=0.1"+newest,
		[2]string{"none", "rounds=40 dim=32"},
		[2]string{"20", "rounds=40 dim=32"},
		[2]string{"10", "rounds=40 dim=24"},
		[2]string{"3", "rounds=10 dim=16"},
		[2]string{"1", "rounds=10 dim=16"})
	add("oneshot", "ml-1m", " rounds=2"+head,
		[2]string{"none", "head-items=1500"},
		[2]string{"20", "head-items=1500"},
		[2]string{"10", "head-items=1500"},
		[2]string{"3", "head-items=1500"},
		[2]string{"1", "head-items=500"})
	add("tacit-private", "ml-1m", " a0=0.1"+newest+head+blend,
		[2]string{"none", "rounds=42 dim=32 head-items=1500"},
		[2]string{"20", "rounds=42 dim=32 head-items=1500"},
		[2]string{"10", "rounds=42 dim=24 head-items=1500"},
		[2]string{"3", "rounds=12 dim=16 head-items=1500"},
		[2]string{"1", "rounds=12 dim=16 head-items=500"})
	return out
}
