package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/batleforc/batlehub-sandbox/conformance/report"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Bench measures what a run costs on the target: one of an empty bundle with a
// scanner that exits at once, one that unpacks a small package, and one of a
// thousand files. Each is run a few times to warm up and then runs times.
func (s *Session) Bench(ctx context.Context, runs int) ([]report.Bench, error) {
	if s.opened != nil {
		return nil, fmt.Errorf("making the target: %w", s.opened)
	}
	many := map[string]string{}
	for i := range 1000 {
		many[fmt.Sprintf("package/d%d/f%d.js", i%25, i)] = strings.Repeat(fmt.Sprintf("line %d\n", i), 40)
	}
	small := tarGzOf(map[string]string{"package/package.json": "{}", "package/index.js": "x()"})
	var list []report.Bench
	for _, b := range []struct {
		name    string
		archive []byte
	}{{"empty bundle", nil}, {"small package", small}, {"package of 1000 files", tarGzOf(many)}} {
		measured, err := s.measure(ctx, b.name, b.archive, runs)
		if err != nil {
			return nil, fmt.Errorf("measuring %s: %w", b.name, err)
		}
		list = append(list, measured)
	}
	return list, nil
}

const warmUps = 3

func (s *Session) measure(ctx context.Context, name string, archive []byte, runs int) (report.Bench, error) {
	t := &T{ctx: ctx, s: s, spec: Spec{ID: "bench"}}
	var took []time.Duration
	for i := range warmUps + runs {
		spec := t.HostileSpec("exit", "0")
		if archive != nil {
			spec.Bundle = sandbox.Bundle{
				Policy: spec.Bundle.Policy, Artifact: newBlob(archive),
				Entries: []wire.Entry{artifactEntry("pkg", wire.Archive, len(archive))},
			}
		}
		began := time.Now()
		out, err := s.runtime.Run(ctx, spec)
		if err != nil {
			return report.Bench{}, err
		}
		if out.Status == nil || *out.Status != 0 {
			return report.Bench{}, errors.New("a run did not exit with 0")
		}
		if i >= warmUps {
			took = append(took, time.Since(began))
		}
	}
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	at := func(share float64) float64 { return ms(took[min(len(took)-1, int(share*float64(len(took))))]) }
	return report.Bench{Name: name, Runs: runs, MinMS: ms(took[0]), P50MS: at(0.5), P95MS: at(0.95), MaxMS: ms(took[len(took)-1])}, nil
}
