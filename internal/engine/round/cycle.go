package round

import "math"

// minTurn is the least number of devices that take part at a time if a share of them takes turns: enough for a
// masked sum, even if a few of them drop out.
const minTurn = 14

// turns is the number of cohorts in a cycle.
func (c Cohort) turns(devices int) int {
	switch {
	case devices == 0:
		return 0
	case c.Share > 0: // turns of equal length, so that none has fewer than minTurn
		return max(1, devices/max(minTurn, int(c.share(devices))))
	}
	n := min(c.Count, devices)
	return (devices + n - 1) / n
}

// turnBounds returns where a turn begins and ends in the order of the devices.
func (c Cohort) turnBounds(turn, devices int) (from, to int) {
	if c.Share > 0 {
		n := max(1, c.turns(devices))
		return turn * devices / n, (turn + 1) * devices / n
	}
	return turn * c.Count, min((turn+1)*c.Count, devices)
}

// largestTurn is the size of the largest cohort of a cycle.
func (c Cohort) largestTurn(devices int) int {
	if n := c.turns(devices); c.Share > 0 && n > 0 {
		return (devices + n - 1) / n
	}
	return min(c.Count, devices)
}

// PassRounds is the number of rounds in which each device takes part about once.
func (c Cohort) PassRounds(devices int) int {
	if n := c.Epoch(devices); n > 0 {
		return n
	}
	return max(1, int(math.Ceil(float64(devices)/math.Max(1, c.Expected(devices)))))
}

// FitRounds is the number of rounds of that many passes over the devices, within the limits of a run.
func (c Cohort) FitRounds(passes, devices int) int {
	return max(1, min(passes, maxRounds)) * max(1, min(c.PassRounds(devices), maxRounds/max(1, passes)))
}

// Smallest is the size of the smallest cohort that is drawn; with poisson it is the expected size.
func (c Cohort) Smallest(devices int) int {
	n := int(c.Expected(devices))
	switch {
	case c.Kind != "cycle" || n == 0:
		return n
	case c.Share > 0:
		return devices / c.turns(devices)
	case devices%n > 0:
		return devices % n // the last turn has the remainder
	}
	return n
}

// cycleOrder is the order in which cohort=cycle takes the devices of a federation.
func cycleOrder(streams Streams, devices int) []uint32 {
	order := make([]uint32, devices)
	for u := range order {
		order[u] = uint32(u)
	}
	streams().Shuffle(order)
	return order
}

// Turn returns those of the devices, ascending, that cohort=cycle takes in a round of a federation that
// was planned for a number of devices. Devices beyond that number have a turn of their own, always the
// same one.
func (c Cohort) Turn(streams Streams, round, planned int, devices []uint32) (turn []uint32) {
	epoch := c.turns(planned)
	order, turnOf := cycleOrder(streams, planned), make([]uint32, planned)
	for at := range epoch {
		from, to := c.turnBounds(at, planned)
		for _, u := range order[from:to] {
			turnOf[u] = uint32(at)
		}
	}
	for _, id := range devices {
		var at uint32
		if int(id) < planned {
			at = turnOf[id]
		} else {
			const later = 1 // other streams are named by a round or have no name
			at = streams(uint64(id), later).Uint32n(uint32(epoch))
		}
		if int(at) == round%epoch {
			turn = append(turn, id)
		}
	}
	return turn
}
