package metrics

// Readout is what one device says of the model and of popularity, on one held-out item
// ranked among the catalogue: for each of the two 1 where it was ranked, hit and gain at
// 10. Sums over devices, divided by the sum of the first, are the metrics.
type Readout [ReadoutNumbers]float32

// ReadoutNumbers is the length of a Readout. The longest has a length of at most the
// square root of it, which is the clip to bound it with.
const ReadoutNumbers = 6

// Read is the readout of two places; popular is nil where popularity is not known.
func Read(model Place, popular *Place) Readout {
	var r Readout
	for i, p := range []*Place{&model, popular} {
		if p == nil {
			continue
		}
		hit, gain := p.At(10, Expected)
		r[3*i], r[3*i+1], r[3*i+2] = 1, float32(hit), float32(gain)
	}
	return r
}
