package device

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/tacit-rec/tacit/internal/pb"
	"github.com/tacit-rec/tacit/privacy"
)

// errDeclined is wrapped by the reasons for which a device declines a task. Declining is not a
// failure: the device waits for another task.
var errDeclined = errors.New("the device declines the task")

// permits returns an error if a device must decline an evaluation or a count, whatever the plan
// says. They must be masked sums of enough devices. A device counts its items once per run and
// evaluates a model version once, because the difference of two sums over different devices would
// reveal one device's values. A sum that the device helped to unmask counts as sent. sendMasked has the
// same rule for training.
func (s *savedReport) permits(t *pb.Task) error {
	revealed := s != nil && (s.Revealed || s.State == counted) && bytes.Equal(s.Run, t.Run) &&
		!(s.State == counted && s.answers(t))
	switch {
	case t.Kind == pb.Kind_TRAIN:
		return nil
	case t.Masking == nil:
		return fmt.Errorf("%w: evaluations must be masked", errDeclined)
	case t.Masking.MinDevices < privacy.MinMaskedSum:
		return fmt.Errorf("%w: an evaluation by %d devices: must be at least %d", errDeclined, t.Masking.MinDevices,
			privacy.MinMaskedSum)
	case t.Kind == pb.Kind_COUNT && revealed:
		return fmt.Errorf("%w: it has counted its items in this run already", errDeclined)
	case t.Kind == pb.Kind_EVALUATE && revealed && s.ModelVersion == t.ModelVersion:
		return fmt.Errorf("%w: it has evaluated this model version already", errDeclined)
	}
	return nil
}

// errWeaker is wrapped by the reasons for which a device declines a task that protects it less than
// its plan claims. The device's log shows them.
var errWeaker = fmt.Errorf("%w: it is weaker than the privacy guarantee", errDeclined)

func weaker(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errWeaker, fmt.Errorf(format, args...))
}
