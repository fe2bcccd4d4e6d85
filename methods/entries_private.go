package methods

import (
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods/internal/private"
)

// orderCaution says what methods that use the order of the history compare with.
const orderCaution = "It uses the order of the history: compare it with other methods that do so too " +
	"(docs/sequence.md). "

const sumCaution = "Exact sums are not private by themselves: if one device of a cohort has an item, the item's sum " +
	"is that device's vector. Rows that fewer than `few` devices have are not learnt."

// alsGrid lists the settings that closed-form methods try in runs without a preset.
var alsGrid = []string{"dim=64 a0=0.1", "dim=32 a0=0.3", "dim=32 a0=0.03 reg=0.03", "dim=16 a0=0.3"}

const exactCaution = "Designed for differential privacy (`dp=epsilon=10`). Without it, exact sums are not private."

// budgeted returns the entries of Tacit's methods for differential privacy.
func budgeted() []method.Entry {
	return []method.Entry{
		{
			Name: "oneshot", Title: "One-shot Gram", Paper: "Tacit's own; noise as by Dwork et al., Analyze Gauss, " +
				"STOC 2014", New: func() method.Method { return &private.OneShot{} },
			Options: map[string]string{"rounds": "2"},
			Caution: "Items outside the head are ranked by their counts. " + exactCaution,
		},
		{
			Name: "norm-grad", Title: "Normalised gradient", Paper: "Tacit's own; a form of DP-FedAvg, McMahan et " +
				"al., Learning Differentially Private Recurrent Language Models, ICLR 2018",
			New:     func() method.Method { return &private.NormGrad{} },
			Options: map[string]string{"rounds": "20", "negatives": "1", "eval-every": "10"},
			Caution: exactCaution,
		},
		{
			Name: "norm-grad-next", Title: "Normalised gradient, next items", Paper: "Tacit's own; a form of " +
				"DP-FedAvg, McMahan et al., Learning Differentially Private Recurrent Language Models, ICLR 2018",
			New:     func() method.Method { return &private.NormGradNext{} },
			Options: map[string]string{"rounds": "20", "negatives": "1", "eval-every": "10"},
			Caution: orderCaution + exactCaution,
		},
		{
			Name: "tacit-private", Title: "Tacit, private", Paper: "Tacit's own: oneshot and norm-grad",
			New:     func() method.Method { return &private.TacitPrivate{} },
			Options: map[string]string{"rounds": "22", "negatives": "1", "eval-every": "10"},
			Caution: exactCaution,
		},
	}
}

// seldom is for networks whose evaluation takes much longer than a round.
var seldom = map[string]string{"eval-every": "20"}
