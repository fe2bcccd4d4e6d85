// Package methods is the registry of the methods that Tacit ships: published ones, their
// baselines and Tacit's own. Each family of methods has a folder in methods/internal. The
// package runs nothing; a method's contract is in package method.
package methods

import (
	"embed"
	"sync"

	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/methods/internal/blend"
	"github.com/tacit-rec/tacit/methods/internal/closed"
	"github.com/tacit-rec/tacit/methods/internal/factorisation"
	"github.com/tacit-rec/tacit/methods/internal/features"
	"github.com/tacit-rec/tacit/methods/internal/neural"
	"github.com/tacit-rec/tacit/methods/internal/private"
	"github.com/tacit-rec/tacit/methods/internal/sequence"
)

// Source is the source code of the methods. The documentation page of a method starts with
// the doc comment of its type.
//
//go:embed internal/*/*.go
var Source embed.FS

// registry builds the registry of this package once.
var registry = sync.OnceValue(func() *method.Registry {
	r := &method.Registry{}
	for _, e := range entries() {
		if err := r.Add(e); err != nil {
			panic(err)
		}
	}
	for _, p := range pluginEntries() {
		if err := r.AddPlugin(p); err != nil {
			panic(err)
		}
	}
	return r
})

// Default returns a new registry with the methods and plug-ins of this package.
// Callers may add to it.
func Default() *method.Registry { return registry().Clone() }

// Methods that programs build directly, without the registry.
type (
	PFedRec      = factorisation.PFedRec
	FedMF        = factorisation.FedMF
	FedNCF       = factorisation.FedNCF
	FedRecon     = factorisation.FedRecon
	FedRAP       = factorisation.FedRAP
	MF           = factorisation.MF
	Local        = factorisation.Local
	FedRecGEL    = neural.FedRecGEL
	FOFLSelf     = neural.FOFLSelf
	PrivRec      = features.PrivRec
	PrivRecCen   = features.PrivRecCen
	NNSelf       = features.NNSelf
	ALS          = closed.ALS
	IALS         = closed.IALS
	FCF          = closed.FCF
	IALSNext     = closed.IALSNext
	Tacit        = blend.Tacit
	Markov       = sequence.Markov
	OneShot      = private.OneShot
	NormGrad     = private.NormGrad
	NormGradNext = private.NormGradNext
	TacitPrivate = private.TacitPrivate
)
