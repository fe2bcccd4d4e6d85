package sweep

import (
	"encoding/json"
	"os"

	"github.com/tacit-rec/tacit/internal/atomicfile"
)

// maxFile is the largest file that is read, in bytes. Files may come from other machines.
const maxFile = 64 << 20

// File stores the result of one job as a JSON file.
type File[R any] struct {
	Path  string
	Valid func(*R) bool // reports whether a file's content is the result of this job
}

// Load reads the result. A file that is missing, unreadable or of another job is not an error:
// the job has to be run.
func (f File[R]) Load() (result *R, found bool, err error) {
	b, err := os.ReadFile(f.Path)
	if err != nil || len(b) > maxFile {
		return nil, false, nil
	}
	result = new(R)
	if json.Unmarshal(b, result) != nil || !f.Valid(result) {
		return nil, false, nil
	}
	return result, true, nil
}

// Store writes the result.
func (f File[R]) Store(result *R) error {
	b, err := json.MarshalIndent(result, "", " ")
	if err != nil {
		return err
	}
	return atomicfile.Write(f.Path, append(b, '\n'))
}
