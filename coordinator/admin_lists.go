package coordinator

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"connectrpc.com/connect"

	"github.com/tacit-rec/tacit/internal/pb"
)

// RunInfo is a run, for operators.
type RunInfo struct {
	Number int       `json:"number"` // in the federation, from 1
	Run    string    `json:"run"`    // its ID
	Method string    `json:"method"`
	Round  int       `json:"round"`  // rounds that are done
	Rounds int       `json:"rounds"` // rounds that were planned
	Begun  time.Time `json:"begun"`
	// Ended is when the last model of the run was published; null while the run is not over.
	Ended *time.Time `json:"ended"`
	// State is that of the coordinator for a run that is not over. Otherwise it is finished, if all rounds are done,
	// or why they are not: ended, by an operator, budget-spent or stopped.
	State State `json:"state"`
}

// maxRuns is how many earlier runs are remembered.
const maxRuns = 100

// Ended is the state of a run that an operator ended before its last round.
const Ended State = "ended"

// describe is a run whose state is known. Only the fields of the newest version are read.
func (c *Coordinator) describe(state State) RunInfo {
	run := c.latest.Load()
	out := RunInfo{
		Number: run.number, Run: fmt.Sprintf("%x", run.id), Method: run.settings.Method, Rounds: run.settings.Rounds,
		Begun: run.begun, State: state,
	}
	v := c.models.Newest()
	if v == nil || !run.has(v.Run) { // the run begins just now
		return out
	}
	if out.Round = v.Round; !state.Over() {
		return out
	}
	at := time.UnixMilli(v.CreatedMs).UTC()
	switch out.Ended = &at; {
	case out.Round >= out.Rounds:
		out.State = Finished
	case state == Finished || state == BetweenRuns:
		out.State = Ended
	}
	return out
}

// Runs lists the newest run and the 100 before it, the oldest first.
func (c *Coordinator) Runs() []RunInfo {
	if !c.begun() {
		return []RunInfo{}
	}
	state, _ := c.progress.lasting()
	return append(slices.Clone(c.latest.Load().earlier), c.describe(state))
}

// withNewest are the runs before the next one.
func (c *Coordinator) withNewest() []RunInfo {
	state, _ := c.idle()
	all := append(slices.Clone(c.latest.Load().earlier), c.describe(state))
	return all[max(0, len(all)-maxRuns):]
}

// runsResponse is the answer of GET runs.
type runsResponse struct {
	Runs []RunInfo `json:"runs"`
}

func adminRuns(c *Coordinator) runsResponse { return runsResponse{c.Runs()} }

// roundsResponse is the answer of GET rounds.
type roundsResponse struct {
	Rounds []RoundInfo `json:"rounds"`
}

func adminRounds(c *Coordinator) roundsResponse {
	return roundsResponse{append([]RoundInfo{}, c.Rounds()...)}
}

// Runs lists the newest runs, the oldest first.
func (a *AdminClient) Runs(ctx context.Context) ([]RunInfo, error) {
	var out runsResponse
	err := a.Get(ctx, "runs", &out)
	return out.Runs, err
}

// ItemList is a page of the catalogue.
type ItemList struct {
	Version uint64       `json:"catalogue_version"`
	Count   int          `json:"count"`   // items of the catalogue, with retired ones
	Waiting int          `json:"waiting"` // additions and changes that take effect in the next round
	Items   []ListedItem `json:"items"`
	// Next is the position of the first item of the next page; 0 if this is the last one.
	Next int `json:"next"`
}

// ListedItem is an item of the catalogue.
type ListedItem struct {
	ID      string `json:"id"`
	Title   string `json:"title,omitempty"`
	Retired bool   `json:"retired"`
}

// Items lists a page of the catalogue, from a position on.
func (c *Coordinator) Items(from uint64, limit int) ItemList {
	if limit <= 0 || limit > maxListed {
		limit = maxListed
	}
	all := c.catalogue.Current()
	out := ItemList{Items: []ListedItem{}, Version: all.GetVersion(), Waiting: c.catalogue.Pending()}
	items := all.GetItems()
	out.Count = len(items)
	first := int(min(from, uint64(len(items))))
	last := min(first+limit, len(items))
	if last < len(items) {
		out.Next = last
	}
	for _, it := range items[first:last] {
		out.Items = append(out.Items, ListedItem{ID: it.Id, Title: it.Title, Retired: it.Retired})
	}
	return out
}

func adminListItems(c *Coordinator, _ http.ResponseWriter, r *http.Request) (any, error) {
	from, limit, err := page(r)
	return c.Items(from, limit), err
}

// page reads which part of a list a call asks for.
func page(r *http.Request) (from uint64, limit int, err error) {
	if from, err = number(r.URL.Query(), "from"); err != nil {
		return 0, 0, err
	}
	n, err := number(r.URL.Query(), "limit")
	if err == nil && (from >= 1<<32 || n > maxListed) {
		err = refusal(connect.CodeInvalidArgument, fmt.Errorf("from = %d, limit = %d: must be at most %d and %d",
			from, n, uint32(1<<32-1), maxListed))
	}
	return from, int(n), err
}

// ListItems lists a page of the catalogue, from a position on.
func (a *AdminClient) ListItems(ctx context.Context, from int) (*ItemList, error) {
	out := &ItemList{}
	return out, a.Get(ctx, fmt.Sprintf("items?from=%d", from), out)
}

// Items adds or changes items, from the next round on.
func (a *AdminClient) Items(ctx context.Context, items []*pb.Item) (*AddedItems, error) {
	out := &AddedItems{}
	return out, a.Post(ctx, "items", itemsRequest{jsonItems(items)}, out)
}
