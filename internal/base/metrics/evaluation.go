package metrics

// Evaluation is what one device says of the model and of popularity, on one held-out item
// ranked among the catalogue: for each of the two 1 where it was ranked, hit and gain at
// 10. Sums over devices, divided by the sum of the first, are the metrics.
type Evaluation [EvaluationLength]float32

// EvaluationLength is the length of a Readout. The longest has a length of at most the
// square root of it, which is the clip to bound it with.
const EvaluationLength = 6

// Evaluate is the readout of two places; popular is nil where popularity is not known.
func Evaluate(model Rank, popular *Rank) Evaluation {
	var r Evaluation
	for i, p := range []*Rank{&model, popular} {
		if p == nil {
			continue
		}
		hit, gain := p.At(10, Expected)
		r[3*i], r[3*i+1], r[3*i+2] = 1, float32(hit), float32(gain)
	}
	return r
}
