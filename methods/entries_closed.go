package methods

import (
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods/internal/closed"
)

// steck is the paper of EASE, which is centralised.
const steck = "Steck, Embarrassingly Shallow Autoencoders for Sparse Data, WWW 2019; federated by Tacit"

// closedForm returns the entries of methods that solve in one or a few rounds.
func closedForm() []method.Entry {
	return []method.Entry{
		{
			Name: "ease", Title: "EASE, federated", Paper: steck, New: func() method.Method { return &closed.EASE{} },
			Options: map[string]string{"rounds": "1"},
			Caution: pairCaution,
		},
		{
			Name: "ease-sketch", Title: "EASE, sketched and federated", Paper: steck,
			New:     func() method.Method { return &closed.EASESketch{} },
			Options: map[string]string{"rounds": "3"},
			Caution: "A device sends rows of its own items only, and the sum of an item that a single device has is " +
				"that device's row: use secure aggregation.",
		},
		{
			Name: "slit", Title: "SLIT, federated", Paper: "Choi et al., Session-aware Linear Item-Item Models for " +
				"Session-based Recommendation, WWW 2021; federated by Tacit",
			New:     func() method.Method { return &closed.SLIT{} },
			Options: map[string]string{"rounds": "1"},
			Caution: "It uses the order of the history: compare it with methods that do so too. " + pairCaution,
		},
		{
			Name: "als", Title: "Exact ALS", Paper: "Hu, Koren and Volinsky, Collaborative Filtering for Implicit " +
				"Feedback Datasets, ICDM 2008; federated by Tacit",
			New:     func() method.Method { return &closed.ALS{} },
			Options: map[string]string{"rounds": "13"},
			Caution: "A control for `ials`: a device sends a matrix per item, 31.8 MB per round on ML-1M if it hides " +
				"which items it has. " + sumCaution,
		},
	}
}

const pairCaution = "An update grows with the square of the catalogue: 5.7 MB for 1,682 items. It names pairs of the " +
	"device's items, so use secure aggregation; a pair that a single device has still shows in the sum."
