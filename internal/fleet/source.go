package fleet

import (
	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/device"
	"github.com/tacit-rec/tacit/internal/engine/local"
)

// source is a user of a data set. Its validation item is what it evaluates models with.
type source struct {
	split *data.Split
	user  int
	part  data.Part
}

func (s *source) Fill(_ *device.Catalogue, t *local.Task) (held uint32, ok bool) {
	s.split.User(s.user, &s.part)
	t.Train, t.Rating, t.Rows, t.Hide = s.part.Train, s.part.Rating, s.part.Rows, s.split.Hidden(&s.part)
	if s.part.Valid == data.None {
		return 0, false
	}
	return uint32(s.part.Valid), true
}
