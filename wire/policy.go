package wire

import (
	"errors"
	"fmt"
)

// ExtractPolicy is what an archive may do when it is unpacked. Every limit is
// checked before the bytes it speaks of are allocated or written. Limits sum
// over all archives of one run.
type ExtractPolicy struct {
	// MaxEntries is how many entries may be read, of any kind.
	MaxEntries int64 `json:"max_entries"`
	// MaxBytes is how many bytes may be written in all.
	MaxBytes int64 `json:"max_bytes"`
	// MaxFileBytes is how large one file may be.
	MaxFileBytes int64 `json:"max_file_bytes"`
	// MaxPathBytes is how long an entry's name may be.
	MaxPathBytes int64 `json:"max_path_bytes"`
	// MaxDepth is how many components an entry's name may have.
	MaxDepth int64 `json:"max_depth"`
	// MaxRatio is how many bytes may come out of a compressed archive for each
	// byte that the whole of it has, once RatioFloor bytes have come out.
	MaxRatio int64 `json:"max_ratio"`
	// Duplicates says what a second entry of the same name does.
	Duplicates Clash `json:"duplicates"`
	// CaseClash says what a name does that differs from an earlier one by
	// letter case or Unicode form alone.
	CaseClash Clash `json:"case_clash"`
}

// RatioFloor is how many bytes may be inflated before MaxRatio is looked at:
// small files of zeros are ordinary.
const RatioFloor = 8 << 20

// Clash is what is done about two entries that claim one name.
type Clash string

// What a clash does. In each case but ClashRefuse it is counted and named in
// the result, for a second entry is a way to hide from a scanner.
const (
	// ClashRefuse refuses the whole archive.
	ClashRefuse Clash = "refuse"
	// ClashKeep keeps both: the later entry under a numbered name beside the
	// first, so that a scanner sees every byte that any installer may write.
	ClashKeep Clash = "keep"
	// ClashReplace lets the later entry take the place of the earlier one, as
	// tar and most installers do.
	ClashReplace Clash = "replace"
)

// DefaultExtractPolicy is the policy of a configuration that says nothing.
func DefaultExtractPolicy() ExtractPolicy {
	return ExtractPolicy{
		MaxEntries:   50_000,
		MaxBytes:     512 << 20,
		MaxFileBytes: 512 << 20,
		MaxPathBytes: 1024,
		MaxDepth:     64,
		MaxRatio:     200,
		Duplicates:   ClashKeep,
		CaseClash:    ClashKeep,
	}
}

// Validate reports the first field that no extraction could follow.
func (p ExtractPolicy) Validate() error {
	limits := []struct {
		name       string
		value, max int64
	}{
		{"max_entries", p.MaxEntries, 100_000_000},
		{"max_bytes", p.MaxBytes, 1 << 50},
		{"max_file_bytes", p.MaxFileBytes, 1 << 50},
		{"max_path_bytes", p.MaxPathBytes, PathBytesCap},
		{"max_depth", p.MaxDepth, PathDepthCap},
		{"max_ratio", p.MaxRatio, 1 << 30},
	}
	for _, l := range limits {
		if l.value < 1 || l.value > l.max {
			return fmt.Errorf("policy: %s is %d, want 1 to %d", l.name, l.value, l.max)
		}
	}
	return errors.Join(p.Duplicates.validate("duplicates"), p.CaseClash.validate("case_clash"))
}

func (c Clash) validate(field string) error {
	switch c {
	case ClashRefuse, ClashKeep, ClashReplace:
		return nil
	}
	return fmt.Errorf("policy: %s is %.32q, want %q, %q or %q", field, string(c), ClashRefuse, ClashKeep, ClashReplace)
}
