package device

import (
	"fmt"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/wire"
)

// catalogue is the items of a federation by their index in the model's tables.
type catalogue struct {
	items *pb.Catalogue
	index map[string]uint32
}

func readCatalogue(b []byte, items int) (*catalogue, error) {
	all, err := wire.ReadCatalogue(b, items)
	if err != nil {
		return nil, err
	}
	c := &catalogue{items: all, index: make(map[string]uint32, items)}
	for i, it := range all.Items {
		if _, ok := c.index[it.Id]; ok {
			return nil, fmt.Errorf("the catalogue has two items %q", it.Id)
		}
		c.index[it.Id] = uint32(i)
	}
	listed := make([]bool, items)
	for _, i := range all.Popular {
		if int(i) >= items || listed[i] {
			return nil, fmt.Errorf("the popularity list has item %d twice, or beyond the catalogue of %d items", i,
				items)
		}
		listed[i] = true
	}
	return c, nil
}

// lookup returns the index of an item ID.
func (c *catalogue) lookup(id string) (uint32, bool) {
	i, ok := c.index[id]
	return i, ok
}

// popularity returns the rank of every item by popularity, from 0. Items outside the popularity list tie for
// the last rank.
func (c *catalogue) popularity() []int {
	rank := make([]int, c.len())
	for i := range rank {
		rank[i] = len(c.items.Popular)
	}
	for at, i := range c.items.Popular {
		rank[i] = at
	}
	return rank
}

// len returns the number of items, including retired ones.
func (c *catalogue) len() int { return len(c.items.Items) }

// item returns the item at an index.
func (c *catalogue) item(index uint32) *pb.Item { return c.items.Items[index] }
