package experiment

import (
	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/internal/study/reference"
	"github.com/tacit-rec/tacit/method"
	"github.com/tacit-rec/tacit/sim"
)

// Approximate seconds on one core, for the estimate that a run prints: of EASE per triple of items, of local-only
// training and of the memoriser per sample, of the maps of items, and of the loss landscape, whose work is fixed.
const (
	perEASETriple    = 4.5e-10
	perLocalSample   = 0.15e-6
	perMemorySample  = 6e-9
	perItemMaps      = 2.0
	perLossLandscape = 4.5
)

// ReferenceSeconds estimates the seconds on one core of the reference rows that the user's cache does not hold, over
// all seeds of the job. It is 0 if the job skips them.
func (j *Job) ReferenceSeconds(split *data.Split) float64 {
	if _, held := split.Source.(*data.Set); !held || j.NoReferences {
		return 0
	}
	items, users := float64(split.Items()), float64(split.Users())
	samples := float64(1+j.Negatives) * float64(Rows(split.Source)) / users // of a device in a round
	total, solved := 0.0, false
	for i := range uint64(j.seedsToRun()) {
		c, other := j.referenceConfig(split), *split
		other.Seed += i
		c.Split, c.Seed = &other, c.Seed+i
		for _, name := range reference.Names {
			if exists(refPath(name, c)) {
				continue
			}
			switch name {
			case "ease": // the seeds share its matrix
				if items <= reference.EASEItems && !solved {
					total += items * items * items * perEASETriple
					solved = true
				}
			case "local":
				total += min(users, reference.LocalUsers) * reference.LocalRounds * samples * perLocalSample
			case "memoriser":
				total += users * float64(c.Rounds) * samples * perMemorySample
			}
		}
	}
	return total
}

// FigureSeconds estimates the seconds on one core of the report's figures. It is 0 if the job skips them.
func (j *Job) FigureSeconds(run *sim.Run) (total float64) {
	if !j.Figures || j.Out == "" || j.Source.Users() > manyUsers {
		return 0
	}
	if _, dim, ok := run.ItemTable(); ok && dim <= spectrumDims {
		total += perItemMaps
	}
	shared, _ := run.Plan().Sizes()
	_, learns := method.As[method.Learner](j.Params)
	_, ready := method.As[method.Ready](j.Params)
	if learns && !ready && !run.Plan().Central() && shared <= landscapeMost {
		total += perLossLandscape
	}
	return total
}

// seedsToRun counts this seed and those after it.
func (j *Job) seedsToRun() int { return max(j.SeedOf-j.SeedAt+1, j.Seeds, 1) }
