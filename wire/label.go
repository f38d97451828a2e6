package wire

import (
	"errors"
	"fmt"
)

// Label says whose run this is. It names instances, directories and keys, and
// is what the sweep goes by.
type Label struct {
	// Worker is the id of the worker process that started the run.
	Worker string `json:"worker"`
	// Job is the id of the job the run belongs to.
	Job string `json:"job"`
	// Scanner is the name of the scanner, which is also the name of its room.
	Scanner string `json:"scanner"`
	// Attempt counts the runs of one scanner in one job, from 1.
	Attempt int `json:"attempt"`
}

// String is the label as it stands in names: job, scanner and attempt.
func (l Label) String() string { return fmt.Sprintf("%s-%s-%d", l.Job, l.Scanner, l.Attempt) }

// ErrLabel is wrapped by every refusal of a label.
var ErrLabel = errors.New("invalid label")

// Validate reports the first part that could not stand in a file name, a
// container name and an object key alike: one to 63 of a-z, 0-9, "-", "_" and
// ".", beginning and ending with a letter or digit.
func (l Label) Validate() error {
	for _, part := range []struct{ name, value string }{
		{"worker", l.Worker}, {"job", l.Job}, {"scanner", l.Scanner},
	} {
		if !validLabelPart(part.value) {
			return fmt.Errorf("%w: %s is %.64q, want 1 to 63 of a-z 0-9 - _ . between letters or digits", ErrLabel, part.name, part.value)
		}
	}
	if l.Attempt < 1 || l.Attempt > 1_000_000 {
		return fmt.Errorf("%w: attempt is %d, want 1 to 1000000", ErrLabel, l.Attempt)
	}
	return nil
}

func validLabelPart(s string) bool {
	if s == "" || len(s) > 63 || !alphanumeric(s[0]) || !alphanumeric(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !alphanumeric(c) && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

func alphanumeric(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
