package experiment

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/tacit-rec/tacit/data"
	"github.com/tacit-rec/tacit/param"
)

// checkSplit checks the settings of a split that the user chose.
func (s *Settings) checkSplit() error {
	if err := s.checkFiles(); err != nil {
		return err
	}
	if s.KCore < 0 {
		return AsInput(fmt.Errorf("k-core = %d: must be 0 or more", s.KCore), "")
	}
	if s.TimeCut == "" {
		return nil
	}
	if _, err := data.ParseCut(s.TimeCut); err != nil {
		return AsInput(err, "example: tacit run -d FILE --protocol temporal --time-cut 0.8,0.9")
	}
	if s.Protocol != "temporal" {
		return AsInput(fmt.Errorf("--time-cut applies to protocol temporal, and the protocol is %s", s.Protocol),
			"add --protocol temporal")
	}
	if s.TestFile != "" {
		return AsInput(errors.New("--time-cut and --test-file are two splits"), "omit one of them")
	}
	return nil
}

func (s *Settings) checkFiles() error {
	if s.ValidFile != "" && s.TestFile == "" {
		return AsInput(errors.New("--valid-file requires --test-file"),
			"example: tacit run -d train.csv --valid-file valid.csv --test-file test.csv")
	}
	return nil
}

// allTest reports whether all test rows of a user are ranked, and not only the first.
func (s *Settings) allTest() bool {
	return s.TestRows == "all" || s.TestRows == "auto" && (s.TestFile != "" || s.TimeCut != "")
}

// SplitProtocol returns the protocol with the settings of the split.
func (s *Settings) SplitProtocol() (data.Protocol, error) {
	p, err := data.ProtocolNamed(s.Protocol)
	if err != nil {
		return p, AsInput(err, "")
	}
	p.NewUserShare, p.ShuffleTies, p.AllTest = s.NewUsers, s.TimeTies == "shuffled", s.allTest()
	if p.Cut, err = data.ParseCut(s.TimeCut); err != nil {
		return p, AsInput(err, "")
	}
	return p, nil
}

// withCut makes the hash of the data depend on the split that the user chose.
func (s *Settings) withCut(src data.Source) (data.Source, error) {
	if s.allTest() {
		set, in := src.(*data.Set)
		if !in {
			return nil, AsInput(errors.New("--test-rows all requires data that fits in memory"),
				"use a smaller --world")
		}
		src = set.WithAllTest()
	}
	if s.TimeCut == "" {
		return src, nil
	}
	c, err := data.ParseCut(s.TimeCut)
	if err != nil {
		return nil, AsInput(err, "")
	}
	set, in := src.(*data.Set)
	if !in {
		return nil, AsInput(errors.New("--time-cut requires data that fits in memory"), "use a smaller --world")
	}
	return set.WithCut(c), nil
}

// dataSettings returns the settings that say how the data was read, filtered and split, where they differ from the
// defaults. Files are given by their names without folders.
func (s *Settings) dataSettings() map[string]any {
	var defaults Reading
	param.Defaults(&defaults)
	before, out := param.Values(&defaults), map[string]any{}
	for key, value := range param.Values(&s.Reading) {
		if value == before[key] {
			continue
		}
		if text, ok := value.(string); ok && (key == "test-file" || key == "valid-file") {
			value = filepath.Base(text)
		}
		out[key] = value
	}
	if delete(out, "test-rows"); s.allTest() {
		out["test-rows"] = "all"
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
