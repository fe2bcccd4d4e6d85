package methods

import (
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods/internal/closed"
)

// steck is the paper of EASE (2019), which has nothing of devices.
const steck = "Steck, Embarrassingly Shallow Autoencoders for Sparse Data, WWW 2019; federated by Tacit"

// closedForm are the entries of methods that are exact after one round or a few.
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
			Caution: "Which rows a device sends are its items, and of an item that one device has the sum is that " +
				"device's own: only sums over many may reach the coordinator.",
		},
		{
			Name: "slit", Title: "SLIT, federated", Paper: "Choi et al., Session-aware Linear Item-Item Models for " +
				"Session-based Recommendation, WWW 2021; federated by Tacit",
			New:     func() method.Method { return &closed.SLIT{} },
			Options: map[string]string{"rounds": "1"},
			Caution: "It reads the order of a history: compare it with methods that do so too. " + pairCaution,
		},
		{
			Name: "als", Title: "Exact ALS", Paper: "Hu, Koren and Volinsky, Collaborative Filtering for Implicit " +
				"Feedback Datasets, ICDM 2008; federated by Tacit",
			New:     func() method.Method { return &closed.ALS{} },
			Options: map[string]string{"rounds": "13"},
			Caution: "It is here to check `ials` by: a device sends a matrix for each of its items, 31.8 MB a round " +
				"on ML-1M if its items are not to be named. " + sumCaution,
		},
	}
}

const pairCaution = "What a device sends is as large as the catalogue squared: 5.7 MB of Gram for 1,682 items. It " +
	"names pairs of its items, so only a sum over many devices may reach the coordinator; a pair that one device alone has still shows in it."
