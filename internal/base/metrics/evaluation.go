package metrics

// Evaluation is what one device reports about the model and about the popularity baseline, on
// one held-out item ranked among the catalogue: for each of the two, 1 if it was ranked, hit
// and gain at 10. Sums over devices divided by the sum of the first number are the metrics.
type Evaluation [EvaluationLength]float32

// EvaluationLength is the length of an Evaluation. Its norm is at most the square root of this,
// which is therefore its clipping bound.
const EvaluationLength = 6

// Evaluate returns the evaluation of two ranks; popular is nil if popularity is unknown.
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
