package fleet

import (
	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/engine/local"
)

// source is the training data of one user of a data set. The validation item is held out for
// evaluation.
type source struct {
	split *data.Split
	user  int
	part  data.Part
}

// SourceOf returns the training data of one user of a data set, for device.Options.Source.
func SourceOf(split *data.Split, user int) func(t *local.Task) (heldOut uint32, ok bool) {
	return (&source{split: split, user: user}).fill
}

func (s *source) fill(t *local.Task) (heldOut uint32, ok bool) {
	s.split.User(s.user, &s.part)
	t.Train, t.Rating, t.Rows, t.Hide = s.part.Train, s.part.Rating, s.part.Rows, s.split.Hidden(&s.part)
	if s.part.Valid == data.None {
		return 0, false
	}
	return uint32(s.part.Valid), true
}
