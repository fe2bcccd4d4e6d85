package method

// Scratch is memory of one worker. Local training takes what it needs and releases it,
// as on a stack:
//
//	mark := w.Mark()
//	defer w.Release(mark)
//	sum := w.Floats(n)
//
// Memory that was taken holds anything until it is written. A function that returns
// scratch leaves the release to its caller. A runtime releases everything between two
// devices. After a few batches a Scratch has grown to what is needed, and taking
// allocates nothing.
//
// Memory that must last longer, such as activations between Logits and Back, has an
// owner: see Workspace.
type Scratch struct {
	floats  stack[float32]
	wide    stack[float64]
	indices stack[uint32]
	spaces  []any
}

// Mark is a height of the stack.
type Mark struct{ floats, wide, indices height }

// Mark returns the current height, to release down to.
func (s *Scratch) Mark() Mark { return Mark{s.floats.at, s.wide.at, s.indices.at} }

// Release releases everything that was taken since the mark.
func (s *Scratch) Release(m Mark) {
	s.floats.release(m.floats)
	s.wide.release(m.wide)
	s.indices.release(m.indices)
}

// Floats takes n floats.
func (s *Scratch) Floats(n int) []float32 { return s.floats.take(n) }

// Float64s takes n floats of double precision.
func (s *Scratch) Float64s(n int) []float64 { return s.wide.take(n) }

// Uint32s takes n numbers of items or rows.
func (s *Scratch) Uint32s(n int) []uint32 { return s.indices.take(n) }

// Workspace returns the worker's own T, which the first call makes. It keeps what was
// written to it until the worker ends. T is a type of the package that owns the memory,
// so no other package can touch it.
func Workspace[T any](s *Scratch) *T {
	for _, x := range s.spaces {
		if t, ok := x.(*T); ok {
			return t
		}
	}
	t := new(T)
	s.spaces = append(s.spaces, t)
	return t
}

// Buffer is memory of a Workspace that grows as needed.
type Buffer struct{ data []float32 }

// Floats returns the first n floats of the buffer as they were last written. Growing
// loses them.
func (b *Buffer) Floats(n int) []float32 {
	if cap(b.data) < n {
		b.data = make([]float32, n+n/4)
	}
	return b.data[:n:n]
}

// height is a place in the blocks of a stack.
type height struct{ block, used int }

// stack hands out memory in blocks. It has one block once it has grown enough.
type stack[T any] struct {
	blocks [][]T
	at     height
}

const (
	align    = 16 // memory that is taken starts at a multiple of so many numbers
	smallest = 1 << 10
)

func (s *stack[T]) take(n int) []T {
	need := (n + align - 1) &^ (align - 1)
	for s.at.block < len(s.blocks) && s.at.used+need > len(s.blocks[s.at.block]) {
		s.at = height{block: s.at.block + 1}
	}
	if s.at.block == len(s.blocks) {
		size := max(smallest, need)
		for _, b := range s.blocks {
			size += len(b)
		}
		s.blocks = append(s.blocks, make([]T, size))
	}
	from := s.at.used
	s.at.used += need
	return s.blocks[s.at.block][from : from+n : from+n]
}

func (s *stack[T]) release(to height) {
	s.at = to
	if to == (height{}) && len(s.blocks) > 1 {
		size := 0
		for _, b := range s.blocks {
			size += len(b)
		}
		s.blocks = [][]T{make([]T, size)}
	}
}
