package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// chunkAt is the pages of a column in a row group.
type chunkAt struct {
	in    *io.SectionReader
	codec int
}

// kind is the type of a column. Its levels say how deep a value is defined, and where lists begin.
type kind struct {
	def, rep int // the largest levels
	physical int
	length   int // of fixedArray
	meaning  meaning
	scale    int
	utc      bool
}

// column reads one column.
type column struct {
	kind
	name   string
	leaf   int // among all leaves of the schema
	chunks []chunkAt

	chunk   chunkAt
	at      int64 // of the next page in the chunk
	left    int   // values left in the page
	defs    runs
	reps    runs
	values  []byte // in plain encoding
	bit     int    // of plain booleans
	indexed bool   // values are in index
	packed  bool   // index holds booleans, not places in dict
	delta   bool   // values are in steps, or their lengths are
	steps   deltas
	shared  *prefixes
	limit   int64 // of the values of a page
	index   runs
	dict    [][]byte // as text
	ahead   bool     // the next value, the first of a row, has been read
	defined bool     // it is not missing
	out     []byte

	memory         *memory
	inPage, inDict int64 // bytes that the column holds
	skipped        bool  // the column is not used, or failed
	failed         error
}

// skip releases what the column holds; it is not read any more.
func (c *column) skip() {
	c.memory.held -= c.inPage + c.inDict
	*c = column{name: c.name, memory: c.memory, skipped: true, failed: c.failed}
}

var errTruncated = errors.New("fewer values than rows")

// start moves to a row group.
func (c *column) start(group int) error {
	if c.ahead || c.left > 0 {
		return errors.New("more values than rows")
	}
	c.chunk, c.at, c.dict = c.chunks[group], 0, nil
	return c.memory.change(&c.inDict, 0)
}

// field returns the column's value in the next row.
func (c *column) field() ([]byte, error) {
	c.out = c.out[:0]
	if c.rep == 0 {
		_, defined, err := c.level()
		if err != nil || !defined {
			return nil, err
		}
		c.out, err = c.value(c.out)
		return c.out, err
	}
	if !c.ahead {
		_, defined, err := c.level()
		if err != nil {
			return nil, err
		}
		c.defined = defined
	}
	c.ahead = false
	for {
		if c.defined {
			if len(c.out) > 0 {
				c.out = append(c.out, '|')
			}
			var err error
			if c.out, err = c.value(c.out); err != nil {
				return nil, err
			}
		}
		rep, defined, err := c.level()
		if err == errTruncated {
			return c.out, nil // the last row of the row group
		}
		if err != nil {
			return nil, err
		}
		if c.defined = defined; rep == 0 {
			c.ahead = true
			return c.out, nil
		}
		if len(c.out) > maxPage {
			return nil, errors.New("a list is too long")
		}
	}
}

// level reads the levels of the next value.
func (c *column) level() (rep uint32, defined bool, err error) {
	for c.left == 0 {
		if err := c.page(); err != nil {
			return 0, false, err
		}
	}
	c.left--
	ok := true
	if c.rep > 0 {
		if rep, ok = c.reps.next(); !ok {
			return 0, false, errValue
		}
	}
	if c.def == 0 {
		return rep, true, nil
	}
	def, ok := c.defs.next()
	if !ok {
		return 0, false, errValue
	}
	return rep, int(def) == c.def, nil
}

// value appends the next value that is not missing.
func (c *column) value(out []byte) ([]byte, error) {
	if c.indexed {
		k, ok := c.index.next()
		switch {
		case !ok || !c.packed && int64(k) >= int64(len(c.dict)):
			return nil, errValue
		case c.packed:
			return appendBool(out, k == 1), nil
		}
		return append(out, c.dict[k]...), nil
	}
	if c.delta {
		return c.step(out)
	}
	if c.physical == boolean {
		if c.bit>>3 >= len(c.values) {
			return nil, errValue
		}
		b := c.values[c.bit>>3]>>(c.bit&7)&1 == 1
		c.bit++
		return appendBool(out, b), nil
	}
	v, rest, err := c.take(c.values)
	if err != nil {
		return nil, err
	}
	c.values = rest
	return c.text(out, v), nil
}

// step appends the next value of a page in one of the delta encodings.
func (c *column) step(out []byte) ([]byte, error) {
	n, ok := c.steps.next()
	if ok && c.shared != nil {
		v, ok := c.shared.next(n, &c.values)
		if !ok || c.physical == fixedArray && len(v) != c.length {
			return nil, errValue
		}
		return c.text(out, v), nil
	}
	switch {
	case !ok:
		return nil, errValue
	case c.physical == int32Type:
		return c.text(out, binary.LittleEndian.AppendUint32(nil, uint32(n))), nil
	case c.physical == int64Type:
		return c.text(out, binary.LittleEndian.AppendUint64(nil, uint64(n))), nil
	case n < 0 || n > int64(len(c.values)):
		return nil, errValue
	}
	v := c.values[:n]
	c.values = c.values[n:]
	return c.text(out, v), nil
}

func appendBool(out []byte, b bool) []byte {
	if b {
		return append(out, "true"...)
	}
	return append(out, "false"...)
}

// maxHeader is the largest header of a page: it may have statistics with values.
const maxHeader = 1 << 20

// page reads the next page of the chunk.
func (c *column) page() error {
	size := c.chunk.in.Size()
	if c.at >= size {
		return errTruncated
	}
	var h record
	var used int
	for n := int64(512); ; n *= 16 { // headers are short, unless they have long statistics
		n = min(n, size-c.at, maxHeader)
		head := make([]byte, n)
		if _, err := c.chunk.in.ReadAt(head, c.at); err != nil {
			return err
		}
		t := &thrift{b: head}
		var err error
		if h, err = t.record(0); err == nil {
			used = t.pos
			break
		}
		if n == size-c.at || n == maxHeader {
			return err
		}
	}
	packed, whole := h.int(3), h.int(2)
	c.at += int64(used)
	if packed < 0 || packed > size-c.at || whole < 0 || whole > maxPage {
		return fmt.Errorf("a page of %d bytes, unpacked %d: must be within the column and at most %d", packed, whole,
			maxPage)
	}
	if err := c.memory.change(&c.inPage, packed+whole); err != nil {
		return err
	}
	b := make([]byte, packed)
	if _, err := c.chunk.in.ReadAt(b, c.at); err != nil && packed > 0 {
		return err
	}
	c.at += packed
	switch h.int(1) {
	case 0:
		return c.dataV1(h.record(5), b, int(whole))
	case 2:
		return c.dictionary(h.record(7), b, int(whole))
	case 3:
		return c.dataV2(h.record(8), b, int(whole))
	}
	return nil // an index
}

func (c *column) dictionary(h record, b []byte, whole int) error {
	if whole > maxDictionary {
		return fmt.Errorf("a dictionary of %d bytes: must be at most %d", whole, maxDictionary)
	}
	b, err := unpack(c.chunk.codec, b, whole)
	if err != nil {
		return err
	}
	if e := h.int(2); e != 0 && e != 2 || c.physical == boolean {
		return unsupported("encoding of a dictionary", e)
	}
	n := h.int(1)
	if n < 0 || n > int64(len(b)) {
		return errValue
	}
	c.dict = nil
	if err := c.memory.change(&c.inDict, int64(len(b))+perEntry*n); err != nil {
		return err
	}
	for range n {
		var v []byte
		if v, b, err = c.take(b); err != nil {
			return err
		}
		c.dict = append(c.dict, c.text(nil, v))
	}
	return nil
}

func (c *column) dataV1(h record, b []byte, whole int) error {
	b, err := unpack(c.chunk.codec, b, whole)
	if err != nil {
		return err
	}
	levels := func(most int, encoding int64) (r runs, err error) {
		if most == 0 {
			return r, nil
		}
		if encoding != 3 {
			return r, unsupported("encoding of levels", encoding)
		}
		if len(b) < 4 {
			return r, errValue
		}
		n := binary.LittleEndian.Uint32(b)
		if b = b[4:]; uint64(n) > uint64(len(b)) {
			return r, errValue
		}
		r = runs{b: b[:n], width: bitsFor(most)}
		b = b[n:]
		return r, nil
	}
	if c.reps, err = levels(c.rep, h.int(4)); err != nil {
		return err
	}
	if c.defs, err = levels(c.def, h.int(3)); err != nil {
		return err
	}
	return c.data(h.int(1), h.int(2), b)
}

func (c *column) dataV2(h record, b []byte, whole int) error {
	defs, reps := h.int(5), h.int(6)
	if defs < 0 || reps < 0 || defs > int64(len(b)) || reps > int64(len(b))-defs || defs+reps > int64(whole) {
		return errValue
	}
	c.reps = runs{b: b[:reps], width: bitsFor(c.rep)}
	c.defs = runs{b: b[reps : reps+defs], width: bitsFor(c.def)}
	b, whole = b[reps+defs:], whole-int(reps+defs)
	if compressed, told := h[7].(bool); compressed || !told {
		var err error
		if b, err = unpack(c.chunk.codec, b, whole); err != nil {
			return err
		}
	}
	return c.data(h.int(1), h.int(4), b)
}

// data prepares the values of a page.
func (c *column) data(n, encoding int64, b []byte) error {
	if n < 0 || n > c.limit {
		return errValue
	}
	c.left, c.values, c.bit, c.indexed, c.packed, c.delta, c.shared = int(n), b, 0, false, false, false, nil
	switch encoding {
	case 0:
		return nil
	case 2, 8:
		c.indexed = true
		if len(b) == 0 {
			c.index = runs{width: 1} // all values are missing
			return nil
		}
		if b[0] > 32 {
			return errValue
		}
		c.index = runs{b: b[1:], width: int(b[0])}
		return nil
	case 3:
		if c.physical == boolean && len(b) >= 4 {
			c.indexed, c.packed, c.index = true, true, runs{b: b[4:], width: 1}
			return nil
		}
	case 5, 6:
		if (c.physical == int32Type || c.physical == int64Type) == (encoding == 5) &&
			(encoding == 5 || c.physical == byteArray) {
			return c.deltas(encoding == 6, b)
		}
	case 7:
		if c.physical == byteArray || c.physical == fixedArray {
			return c.prefixes(b)
		}
	case 9:
		return c.joinBytes(b)
	}
	return unsupported("encoding", encoding)
}

// deltas prepares a page of differences, or of texts whose lengths come first.
func (c *column) deltas(lengths bool, b []byte) error {
	c.delta = true
	rest, ok := c.steps.openAll(b, c.left)
	if !ok {
		return errValue
	}
	if lengths {
		c.values = rest
	}
	return nil
}

// prefixes prepares a page of texts that share a prefix with the text before.
func (c *column) prefixes(b []byte) error {
	c.delta, c.shared = true, &prefixes{}
	if err := c.memory.change(&c.inPage, c.inPage+int64(len(b))); err != nil { // the longest text
		return err
	}
	rest, ok := c.shared.lengths.openAll(b, c.left)
	if ok {
		rest, ok = c.steps.openAll(rest, c.left)
	}
	if c.values = rest; !ok {
		return errValue
	}
	return nil
}

// joinBytes prepares a page with the first bytes of all values, then their second bytes, and so on.
func (c *column) joinBytes(b []byte) error {
	size := map[int]int{int32Type: 4, float: 4, int64Type: 8, double: 8, fixedArray: c.length}[c.physical]
	if size == 0 || len(b)%size != 0 {
		return errValue
	}
	if err := c.memory.change(&c.inPage, c.inPage+int64(len(b))); err != nil {
		return err
	}
	n := len(b) / size
	c.values = make([]byte, len(b))
	for k := range size {
		for i, x := range b[k*n : (k+1)*n] {
			c.values[i*size+k] = x
		}
	}
	return nil
}

func unsupported(what string, code int64) error {
	names := map[int64]string{
		4: "BIT_PACKED", 5: "DELTA_BINARY_PACKED", 6: "DELTA_LENGTH_BYTE_ARRAY", 7: "DELTA_BYTE_ARRAY",
	}
	name := names[code]
	if name == "" {
		name = fmt.Sprint(code)
	}
	return &unsupportedError{what, name}
}

// unsupportedError reports a valid column that this package does not decode.
type unsupportedError struct{ what, name string }

func (e *unsupportedError) Error() string {
	return fmt.Sprintf("unsupported %s %s; %s", e.what, e.name, rewrite)
}
