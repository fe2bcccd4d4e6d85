package methods

import (
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods/internal/blend"
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
	centralCaution = "Trained centrally on the histories of all users: a baseline, not a federation."
	featureCaution = "Items with the same features have the same score; the protocol `privrec` counts ties by their " +
		"expectation. The paper takes ratings above 3 as positive; here every interaction is positive, on ML-1M too. " +
		"Its nDCG is defined differently: compare hits only."
	repeatCaution = "On Frappe most interactions repeat an item of the user, so under the protocol `privrec` most " +
		"test items are also training items: embeddings of items memorise them, features cannot."
)

//lint:size it is a table
func entries() []method.Entry {
	return append([]method.Entry{
		{
			Name: "pfedrec", Title: "PFedRec", Paper: ijcai,
			New: func() method.Method { return &factorisation.PFedRec{} },
			Caution: "The published gain over FedMF appears under the protocol `paper`, which never draws held-out " +
				"items as " +
				"negatives. Under `deployed`, the tuned copy scores lower than the coordinator's table " +
				"(`infer=global`).",
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
			Caution: "A device sends rows of its own items only, and a matrix that reveals its vector up to the " +
				"sign. " +
				"Without secure aggregation the coordinator can read both.",
		},
		{
			Name: "fedrap", Title: "FedRAP", Paper: iclr, New: func() method.Method { return &factorisation.FedRAP{} },
			Caution: "Nearly all of its accuracy under `paper` is leakage: the device's own rows memorise which " +
				"items were " +
				"drawn as negatives, and held-out items never are. Under `deployed` the same run scores about .20.",
		},
		{
			Name: "fedrecgel", Title: "FedRecGEL", Paper: gel, New: func() method.Method { return &neural.FedRecGEL{} },
			Caution: "On FilmTrust it is not significantly better than popularity; check with `tacit compare`. " +
				"The paper has no validation set and selects the round on test data: see the protocol `fedrecgel`.",
		},
		{
			Name: "mf", Title: "MF (centralised)", Paper: "Koren et al., Matrix Factorization Techniques for " +
				"Recommender Systems, 2009; as compared by Zhang et al. 2023",
			New:     func() method.Method { return &factorisation.MF{} },
			Caution: centralCaution,
		},
		{
			Name: "ncf", Title: "NCF (centralised)", Paper: "He et al., Neural Collaborative Filtering, WWW 2017; " +
				"as compared by Zhang et al. 2023",
			New:     func() method.Method { return &factorisation.NCF{} },
			Caution: centralCaution,
		},
		{
			Name: "metamf", Title: "MetaMF", Paper: "Lin et al., Meta Matrix Factorization for Federated Rating " +
				"Predictions, SIGIR 2020; as compared by Zhang et al. 2023",
			New: func() method.Method { return &neural.MetaMF{} },
			Caution: "It is trained centrally, as in the authors' code. The paper describes a federation in " +
				"which the " +
				"coordinator holds every user's embedding. The published result is not reproduced: under `paper` on " +
				"ML-100K, with the preset and one seed, HR@10 is 8.27 points below the published 66.38, and " +
				"NDCG@10 is 0.89 points above.",
		},
		{
			Name: "fedpergnn", Title: "FedPerGNN", Paper: "Wu et al., A federated graph neural network framework " +
				"for privacy-preserving personalization, Nature Communications 2022; as compared by Zhang et al. 2023",
			New: func() method.Method { return &factorisation.FedPerGNN{} },
			Caution: "The published result (10.50 / 4.92 on ML-100K) is that of random scores (10.0 / 4.5): the run " +
				"failed, " +
				"and there is nothing to reproduce. Ours, with the preset and one seed, is 55.46 points of HR@10 " +
				"above it under " +
				"`paper`, and .6341 / .3759 under `deployed` (.1304 / .0657 among all items). " +
				"Each device sends its vector with each of its items; without secure aggregation the coordinator " +
				"can read both.",
		},
		{
			Name: "privrec", Title: "PrivRec", Paper: privrec, New: func() method.Method { return &features.PrivRec{} },
			Options: seldom,
			Caution: featureCaution + " " +
				"Which rows of the users' feature tables changed reveals a user's gender, age and occupation to the " +
				"coordinator, unless it sees sums only. An update contains every row; those of other categories " +
				"are zero.",
		},
		{
			Name: "dp-privrec", Title: "DP-PrivRec", Paper: privrec,
			New:     func() method.Method { return &features.DPPrivRec{} },
			Options: dpPrivRecOptions,
			Caution: featureCaution + " " +
				"The paper's epsilons hold for 1000·M rounds, not for its 1000 (`tacit privacy tables`), and its " +
				"algorithm as printed guarantees nothing (`--as-printed`). The coordinator sees each update, and " +
				"with it the " +
				"user's features: the guarantee holds against readers of the model only.",
		},
		{
			Name: "privrec-cen", Title: "PrivRec-CEN (centralised)", Paper: privrec,
			New:     func() method.Method { return &features.PrivRecCen{} },
			Options: seldom,
			Caution: centralCaution + " " + featureCaution,
		},
		{
			Name: "nn-self", Title: "NN-SELF", Paper: "Chen et al., Federated Meta-Learning for Recommendation, " +
				"2018; as compared by " + privrec,
			New:     func() method.Method { return &features.NNSelf{} },
			Options: seldom,
			Caution: featureCaution + " An update reveals the user's features, as PrivRec's does.",
		},
		{
			Name: "fofl-self", Title: "FOFL-SELF", Paper: "Jalalirad et al., A Simple and Efficient Federated " +
				"Recommender System, BDCAT 2019; as compared by " + privrec,
			New:     func() method.Method { return &neural.FOFLSelf{} },
			Caution: repeatCaution,
		},
		{
			Name: "tacit", Title: "Tacit", Paper: "Tacit's own",
			New:     func() method.Method { return &blend.Tacit{} },
			Options: map[string]string{"cohort": "cycle:2%", "rounds": "800"},
			Caution: orderCaution + sumCaution,
		},
		{
			Name: "ials-next", Title: "iALS with the order of the history", Paper: "Tacit's own",
			New:     func() method.Method { return &closed.IALSNext{} },
			Options: map[string]string{"rounds": "15", "eval-every": "5"}, Grid: alsGrid,
			Caution: orderCaution + sumCaution,
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
			Caution: "The authors train it centrally, on sessions. The federated form, on whole histories, is ours, " +
				"so no " +
				"published result is comparable. A device sends rows of its own items and of their negatives; " +
				"without secure aggregation the coordinator can tell them apart.",
		},
		{
			Name: "bank", Title: "Sequence bank", Paper: "Tacit's own",
			New:     func() method.Method { return &sequence.Bank{} },
			Options: map[string]string{"cohort": "cycle:2%", "rounds": "550", "eval-every": "50"},
			Caution: "A device sends a gradient of its whole history. Without secure aggregation the coordinator can " +
				"tell from it which items the device has. " + sumCaution,
		},
		{
			Name: "sasrec", Title: "SASRec", Paper: "Kang and McAuley, Self-Attentive Sequential Recommendation, " +
				"ICDM 2018",
			New:     func() method.Method { return &sequence.SASRec{} },
			Options: map[string]string{"cohort": "cycle:2%", "rounds": "550", "eval-every": "50"},
			Caution: "The authors train it centrally, with learnt item embeddings and one sampled negative per " +
				"position. Here features of items are frozen, the loss is a softmax over sampled items, and the " +
				"cohort of a round is the batch, so no published result is comparable. Attention costs more than " +
				"the sums of `bank`, which it does not surpass on ML-100K. A device sends a gradient of its whole " +
				"history. Without secure aggregation the coordinator can tell from it which items the device has. " +
				sumCaution,
		},
		{
			Name: "markov", Title: "Markov chain", Paper: "a reference; the chain that Rendle et al., Factorizing " +
				"Personalized Markov Chains for Next-Basket Recommendation, WWW 2010, factorise",
			New:     func() method.Method { return &sequence.Markov{} },
			Options: map[string]string{"rounds": "1"},
			Caution: "A device sends how often one of its items followed another. Without secure aggregation the " +
				"coordinator " +
				"can read the history in order; a transition of a single device shows in the sum too. " +
				"The sums have one number per pair of items, so catalogues are limited to some thousands of items.",
		},
		{
			Name: "local", Title: "Local only", Paper: "a reference, not a published method",
			New: func() method.Method { return &factorisation.Local{} },
			Caution: "Under `paper` its HR@10 is near 1: it memorises which items were drawn as negatives, and " +
				"held-out items never are.",
		},
	}, append(closedForm(), budgeted()...)...)
}

func pluginEntries() []method.Plugin {
	return []method.Plugin{
		{
			Name: "dualper", Title: "DualPer", Paper: ijcai, On: plugins.NewDualPer,
			Caution: "Under `paper` a device's own rows memorise which items were drawn as negatives, and held-out " +
				"items never are.",
		},
		{
			Name: "plgc", Title: "PLGC", Paper: "Shen et al., A Model-agnostic Strategy to Mitigate Embedding " +
				"Degradation in Personalized Federated Recommendation, arXiv 2508.19591, 2025", On: plugins.NewPLGC,
			Caution: "The equations of the paper are not public. The description above marks what is derived; it " +
				"is not " +
				"a reproduction.",
		},
	}
}

// dpPrivRecOptions are the noise and the cohort of the paper, with the adaptive clipping
// of Andrew et al. (2021).
var dpPrivRecOptions = map[string]string{
	"eval-every": "20",
	"cohort":     "30",
	"dp":         "noise=1,clip=1,adaptive=geometric,quantile=0.5",
}
