package method

// Scratch is the scratch memory of one worker. Local training takes memory and releases
// it in reverse order, as on a stack:
//
//	mark := w.Mark()
//	defer w.Release(mark)
//	sum := w.Floats(n)
//
// Memory is not cleared when it is taken. A function that returns scratch memory leaves
// the release to its caller. A runtime releases everything between two devices. After a
// few batches a Scratch is large enough, and taking memory allocates nothing.
//
// Use Workspace for memory that must last longer, such as activations between Logits and
// Back.
type Scratch struct {
	floats  stack[float32]
	wide    stack[float64]
	indices stack[uint32]
	spaces  []any
}

// Frame is a position on the stack of a Scratch.
type Frame struct{ floats, wide, indices height }

// Mark returns the current position. Release accepts it.
func (s *Scratch) Mark() Frame { return Frame{s.floats.at, s.wide.at, s.indices.at} }

// Release releases all memory that was taken since Mark returned f.
func (s *Scratch) Release(f Frame) {
	s.floats.release(f.floats)
	s.wide.release(f.wide)
	s.indices.release(f.indices)
}

// Floats takes n floats.
func (s *Scratch) Floats(n int) []float32 { return s.floats.take(n) }

// Float64s takes n floats of double precision.
func (s *Scratch) Float64s(n int) []float64 { return s.wide.take(n) }

// Uint32s takes n indices of items or rows.
func (s *Scratch) Uint32s(n int) []uint32 { return s.indices.take(n) }

// Workspace returns the T of this worker; the first call allocates it. The T keeps its
// contents until the worker ends. Use an unexported T, so that no other package can
// reach it.
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

// Floats returns the first n floats of the buffer. They keep their values unless the
// buffer has to grow.
func (b *Buffer) Floats(n int) []float32 {
	if cap(b.data) < n {
		b.data = make([]float32, n+n/4)
	}
	return b.data[:n:n]
}

// height is a position in the blocks of a stack.
type height struct{ block, used int }

// stack hands out memory from a list of blocks. Releasing everything merges them into one.
type stack[T any] struct {
	blocks [][]T
	at     height
}

const (
	align    = 16 // allocations start at a multiple of this many numbers
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
