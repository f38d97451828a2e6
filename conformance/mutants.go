package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/batleforc/batlehub-sandbox/conformance/report"
)

// RunMutants makes every mutant of the target and checks the one spec that
// must kill it. A mutant is killed when that spec fails, and only if the
// mutant still brings answers back at all: a runtime that is broken altogether
// proves nothing about the spec. With a focus only the mutants of its specs are
// made.
func (s *Session) RunMutants(ctx context.Context, log func(report.Mutant)) {
	for _, m := range s.target.Mutants {
		if ctx.Err() != nil {
			return
		}
		if spec, known := ByID(m.Killer); known && s.options.Focus != nil && !s.options.Focus(spec) {
			continue
		}
		started := time.Now()
		killed, reason := s.kill(ctx, m)
		row := report.Mutant{Name: m.Name, Killer: m.Killer, Killed: killed, Reason: oneLine(reason), Seconds: time.Since(started).Seconds()}
		s.report.Mutants = append(s.report.Mutants, row)
		if log != nil {
			log(row)
		}
	}
}

func (s *Session) kill(ctx context.Context, m Mutant) (killed bool, reason string) {
	spec, ok := ByID(m.Killer)
	if !ok {
		return false, "there is no spec " + m.Killer
	}
	target, err := m.Make(ctx)
	if err != nil {
		return false, "the mutant can't be made: " + err.Error()
	}
	inner, err := s.beside(ctx, target, fmt.Sprintf("mutant-%d", len(s.report.Mutants)))
	if err != nil {
		return false, err.Error()
	}
	defer func() {
		if err := inner.Close(); err != nil && killed {
			reason += "; closing it: " + err.Error()
		}
	}()
	alive, _ := ByID("C01")
	if r := inner.Check(ctx, alive); r.Verdict != report.Pass {
		return false, "the mutant does not work at all: " + r.Reason
	}
	r := inner.Check(ctx, spec)
	if r.Verdict == report.Fail {
		return true, r.Reason
	}
	return false, string(r.Verdict) + " " + r.Reason
}
