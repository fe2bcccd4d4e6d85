package report

import (
	"testing"

	"github.com/tacit-rec/tacit/internal/study/result"
	"github.com/tacit-rec/tacit/internal/study/result/resulttest"
)

func TestPublishedSequenceModelsAreBesideARun(t *testing.T) {
	r := resulttest.Run("gru4rec", "complete", 1, 10, 100)
	r.Result.Test = *resulttest.Summary(.8, .5, .25, .14)
	r.Result.Published = nil
	r.Result.Literature = []result.Published{{Model: "gSASRec", HR10: .3003, NDCG10: .1726, Source: "a paper"}}
	all := everywhere(t, r)
	delete(all, "Markdown") // one line per run
	holds(t, all, true, "published: gSASRec", ".3003", ".1726", "gSASRec is trained centrally: a paper.",
		literatureNote)
	r.Result.Literature = nil
	holds(t, everywhere(t, r), false, "gSASRec", literatureNote)
}
