package methods

import (
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods/internal/private"
)

const sumCaution = "Exact sums are not private by themselves: the sum of an item that one device of a cohort has is " +
	"that device's vector. Rows that fewer than `few` devices have are not learnt."

// alsGrid is what closed-form runs try where there is no preset: from a catalogue that
// many users know to one that few do.
var alsGrid = []string{"dim=64 a0=0.1", "dim=32 a0=0.3", "dim=32 a0=0.03 reg=0.03", "dim=16 a0=0.3"}

const exactCaution = "Made for a privacy budget (`dp=epsilon=10`). Without one, exact sums are not private by " +
	"themselves."

// budgeted are Tacit's own methods that are made for a privacy budget.
func budgeted() []method.Entry {
	return []method.Entry{
		{
			Name: "oneshot", Title: "One-shot Gram", Paper: "Tacit's own; noise as by Dwork et al., Analyze Gauss, " +
				"STOC 2014", New: func() method.Method { return &private.OneShot{} },
			Options: map[string]string{"rounds": "2"},
			Caution: "Items outside the head are ranked by their counts alone. " + exactCaution,
		},
		{
			Name: "norm-grad", Title: "Normalised gradient", Paper: "Tacit's own; a form of DP-FedAvg, McMahan et " +
				"al., Learning Differentially Private Recurrent Language Models, ICLR 2018",
			New:     func() method.Method { return &private.NormGrad{} },
			Options: map[string]string{"rounds": "20", "negatives": "1", "eval-every": "10"},
			Caution: exactCaution,
		},
		{
			Name: "tacit-private", Title: "Tacit, private", Paper: "Tacit's own: oneshot and norm-grad",
			New:     func() method.Method { return &private.TacitPrivate{} },
			Options: map[string]string{"rounds": "22", "negatives": "1", "eval-every": "10"},
			Caution: exactCaution,
		},
	}
}

// seldom is for networks whose evaluation takes far longer than a round.
var seldom = map[string]string{"eval-every": "20"}
