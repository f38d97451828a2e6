package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"
)

const goarch = runtime.GOARCH

// result is one benchmark's outcome, and its JSON.
type result struct {
	Name string `json:"name"`
	// A is ours, B what it is compared with.
	A side `json:"a"`
	B side `json:"b"`
	// Value is what the goal speaks of; Goal says it in words.
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Goal  string  `json:"goal"`
	Met   bool    `json:"met"`
}

// side is one side of a comparison; its numbers are in the result's own terms.
type side struct {
	Label   string  `json:"label"`
	Command string  `json:"command"`
	Median  float64 `json:"median"`
	Min     float64 `json:"min"`
	Max     float64 `json:"max"`
	// P95 is the 95th percentile, where the goal speaks of it.
	P95  float64 `json:"p95,omitempty"`
	Unit string  `json:"unit"`
}

func (r result) String() string {
	verdict := "MISSED"
	if r.Met {
		verdict = "met"
	}
	return fmt.Sprintf("%-17s %.2f %s (%s: %s); %s; %s", r.Name, r.Value, r.Unit, r.Goal, verdict, r.A, r.B)
}

func (s side) String() string {
	if s.Label == "" {
		return "nothing beside it"
	}
	text := fmt.Sprintf("%s %.2f %s [%.2f–%.2f]", s.Label, s.Median, s.Unit, s.Min, s.Max)
	if s.P95 > 0 {
		text += fmt.Sprintf(", p95 %.2f", s.P95)
	}
	return text
}

func (r result) write(dir string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, r.Name+".json"), append(b, '\n'), 0o644)
}

// timed is a measured action.
type timed func() (time.Duration, error)

// pair measures a and b in turns, after one unmeasured turn of each, and
// returns both in milliseconds, round by round.
func pair(rounds int, a, b timed) (as, bs []float64, err error) {
	for round := -1; round < rounds; round++ {
		for _, s := range []struct {
			run timed
			to  *[]float64
		}{{a, &as}, {b, &bs}} {
			d, err := s.run()
			if err != nil {
				return nil, nil, err
			}
			if round >= 0 {
				*s.to = append(*s.to, float64(d.Microseconds())/1000)
			}
		}
	}
	return as, bs, nil
}

func sideOf(label, command string, ms []float64) side {
	return side{Label: label, Command: command, Median: median(ms), Min: slices.Min(ms), Max: slices.Max(ms), Unit: "ms"}
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// by combines both sides round by round and returns the median.
func by(as, bs []float64, combine func(a, b float64) float64) float64 {
	combined := make([]float64, len(as))
	for i := range as {
		combined[i] = combine(as[i], bs[i])
	}
	return median(combined)
}

func ratio(a, b float64) float64 { return a / b }

func difference(a, b float64) float64 { return a - b }
