package coordinator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// plainSettings are Settings without methods. jsonSettings writes times as people do.
type (
	plainSettings Settings
	jsonSettings  struct {
		*plainSettings
		Deadline string `json:"deadline"`
	}
)

// MarshalJSON writes the settings with snake_case keys, and times such as 30s.
func (s Settings) MarshalJSON() ([]byte, error) {
	return json.Marshal(jsonSettings{(*plainSettings)(&s), s.Deadline.String()})
}

// UnmarshalJSON reads settings over those that are there. It refuses unknown keys.
func (s *Settings) UnmarshalJSON(b []byte) error {
	out := jsonSettings{(*plainSettings)(s), s.Deadline.String()}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&out); err != nil {
		return err
	}
	t, err := time.ParseDuration(out.Deadline)
	if err != nil {
		return fmt.Errorf("deadline = %.40q: must be a time such as 30s or 5m", out.Deadline)
	}
	s.Deadline = t
	return nil
}
