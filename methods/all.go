// Package methods holds one file per published method, and this table of them.
package methods

import (
	"embed"
	"fmt"
	"reflect"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/param"
)

// Source is the text of this package: a method's page opens with the doc comment
// of its type, so that it is written once.
//
//go:embed *.go
var Source embed.FS

const ijcai = "Zhang et al., Dual Personalization on Federated Recommendation, IJCAI 2023"

// All returns the registry.
func All() []method.Entry {
	return []method.Entry{
		{
			Name: "pfedrec", Title: "PFedRec", Paper: ijcai, New: func() method.Method { return &PFedRec{} },
			Caution: "The published gain over FedMF comes with the `paper` protocol, in which held-out items are never drawn as negatives. " +
				"Under `deployed` the tuned copy scores lower than the coordinator's table (`infer=global`).",
			Presets: []method.Preset{
				published("ml-100k", .7162, .4344, ijcai+", Table 2"),
				published("ml-1m", .7326, .4436, ijcai+", Table 2"),
			},
		},
		{
			Name: "fedmf", Title: "FedMF", Paper: "Chai et al., Secure Federated Matrix Factorization, 2020; as compared in " + ijcai,
			New: func() method.Method { return &FedMF{} },
			Presets: []method.Preset{
				published("ml-100k", .6515, .3938, ijcai+", Table 2"),
				published("ml-1m", .6772, .4090, ijcai+", Table 2"),
			},
		},
		{
			Name: "local", Title: "Local only", Paper: "a reference, not a published method", New: func() method.Method { return &Local{} },
			Caution: "Under `paper` this reaches an HR@10 near 1: it remembers what was drawn as a negative, and held-out items never are.",
		},
	}
}

// published is a preset with the paper's settings: those that the parameters
// have by default (rate 0.1, eta 80, batch 256, 4 negatives, 100 rounds).
func published(data string, hr, ndcg float64, source string) method.Preset {
	return method.Preset{
		Data:      data,
		Settings:  map[string]string{"rounds": "100", "batch": "256", "negatives": "4", "dim": "32", "lr": "0.1", "eta": "80"},
		Published: &method.Published{HR10: hr, NDCG10: ndcg, Source: source},
	}
}

// Named returns the entry of a method.
func Named(name string) (method.Entry, error) {
	var names []string
	for _, e := range All() {
		if e.Name == name {
			return e, nil
		}
		names = append(names, e.Name)
	}
	if near := param.Nearest(name, names); near != "" {
		return method.Entry{}, fmt.Errorf("unknown method %q; did you mean %q?", name, near)
	}
	return method.Entry{}, fmt.Errorf("unknown method %q; see tacit methods", name)
}

// Clone returns a copy of a method: its parameters and nothing else.
func Clone(m method.Method) method.Method {
	v := reflect.New(reflect.TypeOf(m).Elem())
	v.Elem().Set(reflect.ValueOf(m).Elem())
	return v.Interface().(method.Method)
}

// New returns a method with its defaults.
func New(e method.Entry) method.Method {
	m := e.New()
	param.Defaults(m)
	return m
}
