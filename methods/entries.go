package methods

import (
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods/internal/closed"
	"github.com/tacit-rec/tacit/methods/internal/factorisation"
	"github.com/tacit-rec/tacit/methods/internal/features"
	"github.com/tacit-rec/tacit/methods/internal/neural"
	"github.com/tacit-rec/tacit/methods/internal/plugins"
	"github.com/tacit-rec/tacit/methods/internal/sequence"
)

//lint:size the table has an entry for each method

const privrec = "Wang et al., Fast-adapting and Privacy-preserving Federated Recommender System, The VLDB Journal 2022"

const iclr = "Li et al., Federated Recommendation with Additive Personalization, ICLR 2024"

const ijcai = "Zhang et al., Dual Personalization on Federated Recommendation, IJCAI 2023"

const gel = "Yu et al., Sharpness-Aware Minimization for Generalized Embedding Learning in Federated " +
	"Recommendation, 2026 (arXiv 2603.11503)"

const (
	featureCaution = "Items with the same features have the same score: ties count by their expectation under the " +
		"protocol `privrec`. " +
		"The paper takes ratings above 3 as positive and others as negative; here every interaction counts as positive, on ML-1M too. Its nDCG is of another definition: compare hits alone."
	repeatCaution = "On Frappe most rows repeat a user's own item, so under the protocol `privrec` most ranked " +
		"items are among those that a device tunes on: identities remember them, features cannot."
)

//lint:size it is a table
func entries() []method.Entry {
	return append([]method.Entry{
		{
			Name: "pfedrec", Title: "PFedRec", Paper: ijcai, New: func() method.Method { return &factorisation.PFedRec{} },
			Caution: "The published gain over FedMF comes with the `paper` protocol, in which held-out items are " +
				"never drawn as negatives. " +
				"Under `deployed` the tuned copy scores lower than the coordinator's table (`infer=global`).",
		},
		{
			Name: "fedmf", Title: "FedMF", Paper: "Chai et al., Secure Federated Matrix Factorization, 2020; as " +
				"compared by Zhang et al. 2023",
			New: func() method.Method { return &factorisation.FedMF{} },
		},
		{
			Name: "fedncf", Title: "FedNCF", Paper: "Perifanis and Efraimidis, Federated Neural Collaborative " +
				"Filtering, 2022; as compared by Zhang et al. 2023",
			New: func() method.Method { return &factorisation.FedNCF{} },
		},
		{
			Name: "fedrecon", Title: "FedRecon", Paper: "Singhal et al., Federated Reconstruction: Partially Local " +
				"Federated Learning, NeurIPS 2021; as compared by Zhang et al. 2023",
			New: func() method.Method { return &factorisation.FedRecon{} },
		},
		{
			Name: "fcf", Title: "FCF", Paper: "Ammad-ud-din et al., Federated Collaborative Filtering for " +
				"Privacy-Preserving Personalized Recommendation System, 2019",
			New: func() method.Method { return &closed.FCF{} },
			Caution: "The rows that a device sends are exactly those of its own items, and the matrix that it sends " +
				"gives its vector up to the sign: " +
				"without secure aggregation the coordinator reads both.",
		},
		{
			Name: "fedrap", Title: "FedRAP", Paper: iclr, New: func() method.Method { return &factorisation.FedRAP{} },
			Caution: "Nearly all of its accuracy under `paper` is the leak: the device's own rows remember what was " +
				"drawn as a negative, and held-out " +
				"items never are. Under `deployed` the same run scores about .20.",
		},
		{
			Name: "fedrecgel", Title: "FedRecGEL", Paper: gel, New: func() method.Method { return &neural.FedRecGEL{} },
			Caution: "On FilmTrust this is no better than popularity unless a paired test says so (`tacit compare`). " +
				"The paper has no validation set and chose its round on test: see the protocol `fedrecgel`.",
		},
		{
			Name: "mf", Title: "MF (in one place)", Paper: "Koren et al., Matrix Factorization Techniques for " +
				"Recommender Systems, 2009; as compared by Zhang et al. 2023",
			New:     func() method.Method { return &factorisation.MF{} },
			Caution: "This is no federation: every history is in one place.",
		},
		{
			Name: "ncf", Title: "NCF (in one place)", Paper: "He et al., Neural Collaborative Filtering, WWW 2017; " +
				"as compared by Zhang et al. 2023",
			New:     func() method.Method { return &factorisation.NCF{} },
			Caution: "This is no federation: every history is in one place.",
		},
		{
			Name: "metamf", Title: "MetaMF", Paper: "Lin et al., Meta Matrix Factorization for Federated Rating " +
				"Predictions, SIGIR 2020; as compared by Zhang et al. 2023",
			New: func() method.Method { return &neural.MetaMF{} },
			Caution: "It is trained in one place, as by its authors' code: federation is how the paper describes " +
				"it, and the coordinator would hold every user's embedding. " +
				"Its published number is not reproduced: under `paper` on ML-100K, with the preset and one seed, HR@10 is 8.27 points below the published 66.38, and NDCG@10 0.89 above.",
		},
		{
			Name: "fedpergnn", Title: "FedPerGNN", Paper: "Wu et al., A federated graph neural network framework " +
				"for privacy-preserving personalization, Nature Communications 2022; as compared by Zhang et al. 2023",
			New: func() method.Method { return &factorisation.FedPerGNN{} },
			Caution: "The published row (10.50 / 4.92 on ML-100K) is that of a scorer that draws lots, which has " +
				"10.0 / 4.5: it is a run that failed, and nothing to reach. " +
				"Ours, with the preset and one seed, is 55.46 points HR@10 above it under `paper`, and .6341 / .3759 under `deployed` (.1304 / .0657 among the catalogue). " +
				"Each device sends its own vector with each of its items; the coordinator can read both.",
		},
		{
			Name: "privrec", Title: "PrivRec", Paper: privrec, New: func() method.Method { return &features.PrivRec{} },
			Options: seldom,
			Caution: featureCaution + " Which rows of the users' feature tables moved tells a coordinator the " +
				"user's gender, age and occupation, unless only sums reach it: " +
				"what a device sends holds every row, and those of other categories are zero.",
		},
		{
			Name: "dp-privrec", Title: "DP-PrivRec", Paper: privrec, New: func() method.Method { return &features.DPPrivRec{} },
			Options: dpPrivRecOptions,
			Caution: featureCaution + " The paper's epsilons are those of 1000·M rounds, not of its 1000 (`tacit " +
				"privacy tables`), and its algorithm as printed keeps no promise (`--as-printed`). " +
				"The coordinator sees what each device sends, and so the user's features: the promise holds against readers of the model alone.",
		},
		{
			Name: "privrec-cen", Title: "PrivRec-CEN (in one place)", Paper: privrec,
			New:     func() method.Method { return &features.PrivRecCen{} },
			Options: seldom,
			Caution: "This is no federation: every history is in one place. " + featureCaution,
		},
		{
			Name: "nn-self", Title: "NN-SELF", Paper: "Chen et al., Federated Meta-Learning for Recommendation, " +
				"2018; as compared by " + privrec,
			New:     func() method.Method { return &features.NNSelf{} },
			Options: seldom,
			Caution: featureCaution + " What a device sends tells its user's features, as PrivRec's does.",
		},
		{
			Name: "fofl-self", Title: "FOFL-SELF", Paper: "Jalalirad et al., A Simple and Efficient Federated " +
				"Recommender System, BDCAT 2019; as compared by " + privrec,
			New:     func() method.Method { return &neural.FOFLSelf{} },
			Caution: repeatCaution,
		},
		{
			Name: "tacit", Title: "Tacit", Paper: "Tacit's own", New: func() method.Method { return &closed.Tacit{} },
			Options: map[string]string{"rounds": "15", "eval-every": "5"}, Grid: alsGrid,
			Caution: "What it gains over iALS comes from the order of a history: compare it with methods that read " +
				"the order too (docs/sequence.md; on ML-1M `gru4rec` is better). " + sumCaution,
		},
		{
			Name: "ials", Title: "Shared-curvature iALS", Paper: "Tacit's own; the objective is that of Rendle et " +
				"al., Revisiting the Performance of iALS on Item Recommendation Benchmarks, RecSys 2022",
			New:     func() method.Method { return &closed.IALS{} },
			Options: map[string]string{"rounds": "13"}, Grid: alsGrid,
			Caution: sumCaution,
		},
		{
			Name: "gru4rec", Title: "GRU4Rec", Paper: "Hidasi et al., Session-based Recommendations with Recurrent " +
				"Neural Networks, ICLR 2016; the loss is that of Hidasi and Karatzoglou, CIKM 2018",
			New:     func() method.Method { return &sequence.GRU4Rec{} },
			Options: map[string]string{"server": "adam:0.02", "cohort": "10%", "rounds": "300", "eval-every": "20"},
			Caution: "Its authors train it in one place, on sessions; federated, and on whole histories, it is " +
				"ours, and no number of theirs can stand beside it. " +
				"The rows that a device sends are those of its own items and of the negatives drawn for them: without secure aggregation the coordinator can tell them apart.",
		},
		{
			Name: "markov", Title: "Markov chain", Paper: "a reference; the chain that Rendle et al., Factorizing " +
				"Personalized Markov Chains for Next-Basket Recommendation, WWW 2010, factorise",
			New:     func() method.Method { return &sequence.Markov{} },
			Options: map[string]string{"rounds": "1"},
			Caution: "A device sends which of its items followed which, and how often: without secure aggregation " +
				"the coordinator reads the history in its order, and " +
				"a step that one device alone has taken shows in the sum too. The sums hold a number for each pair of items: it is for catalogues of some thousands.",
		},
		{
			Name: "local", Title: "Local only", Paper: "a reference, not a published method",
			New: func() method.Method { return &factorisation.Local{} },
			Caution: "Under `paper` this reaches an HR@10 near 1: it remembers what was drawn as a negative, and " +
				"held-out items never are.",
		},
	}, append(closedForm(), budgeted()...)...)
}

func pluginEntries() []method.Plugin {
	return []method.Plugin{
		{
			Name: "dualper", Title: "DualPer", Paper: ijcai, On: plugins.NewDualPer,
			Caution: "Under `paper` a device's own rows remember what was drawn as a negative, and held-out items " +
				"never are.",
		},
		{
			Name: "plgc", Title: "PLGC", Paper: "Shen et al., A Model-agnostic Strategy to Mitigate Embedding " +
				"Degradation in Personalized Federated Recommendation, arXiv 2508.19591, 2025", On: plugins.NewPLGC,
			Caution: "The paper's equations are not public: what is derived here is marked as such above, and is no " +
				"reproduction.",
		},
	}
}

// dpPrivRecOptions are the noise and the cohort of the paper, with the bound's rule of
// Andrew et al. (2021). Where nothing is known of the data, S starts at 1.
var dpPrivRecOptions = map[string]string{
	"eval-every": "20",
	"cohort":     "30",
	"dp":         "noise=1,clip=1,adaptive=geometric,quantile=0.5",
}
