package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Bench is what one kind of run costs, in milliseconds of wall time.
type Bench struct {
	Name  string  `json:"name"`
	Runs  int     `json:"runs"`
	MinMS float64 `json:"min_ms"`
	P50MS float64 `json:"p50_ms"`
	P95MS float64 `json:"p95_ms"`
	MaxMS float64 `json:"max_ms"`
}

// WriteBench writes dir/<target>/bench.json and returns its name.
func WriteBench(dir string, target Target, host Host, list []Bench) (string, error) {
	where := filepath.Join(dir, target.Name)
	if err := os.MkdirAll(where, 0o755); err != nil {
		return "", fmt.Errorf("making the report's directory: %w", err)
	}
	b, err := json.MarshalIndent(struct {
		Target  Target  `json:"target"`
		Host    Host    `json:"host"`
		Benches []Bench `json:"benches"`
	}{target, host, list}, "", "  ")
	if err != nil {
		return "", fmt.Errorf("encoding the measurements: %w", err)
	}
	name := filepath.Join(where, "bench.json")
	if err := os.WriteFile(name, append(b, '\n'), 0o644); err != nil {
		return "", fmt.Errorf("writing the measurements: %w", err)
	}
	return name, nil
}
