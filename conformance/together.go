package conformance

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/batleforc/batlehub-sandbox/conformance/report"
)

// chunk is how many specs are checked between two looks at what is around.
const chunk = 40

// together is how many of the specs, from the first, may run at once: those of
// one archive each do not meet, whatever the others are.
func (s *Session) together(specs []Spec) int {
	if s.options.Parallel < 2 {
		return 1
	}
	n := 0
	for n < min(len(specs), chunk) && specs[n].Group == Extraction {
		n++
	}
	return max(n, 1)
}

// checkTogether checks specs at once, and looks once for what all of them left.
func (s *Session) checkTogether(ctx context.Context, specs []Spec) {
	ts := make([]*T, len(specs))
	ends := make([]outcome, len(specs))
	took := make([]time.Duration, len(specs))
	for i, spec := range specs {
		ts[i] = s.begin(ctx, spec)
	}
	before, err := ts[0].before()
	if err != nil {
		s.seen = nil
		for _, t := range ts {
			s.add(t.result(outcome{report.Error, "listing what is around: " + err.Error()}, 0))
		}
		return
	}
	next := make(chan int)
	var workers sync.WaitGroup
	for range s.options.Parallel {
		workers.Go(func() {
			for i := range next {
				started := time.Now()
				end, excused := ts[i].excused()
				if !excused {
					end = ts[i].carryOut()
				}
				ends[i], took[i] = end, time.Since(started)
			}
		})
	}
	for i := range specs {
		next <- i
	}
	close(next)
	workers.Wait()
	left := ts[0].leftovers(before)
	if s.seen = before; len(left) > 0 {
		s.seen = nil
	}
	for i, lines := range blame(ts, left) {
		ends[i] = ts[i].leaked(ends[i], lines)
	}
	for i, t := range ts {
		s.add(t.result(ends[i], took[i]))
	}
}

// blame finds whose each line is: a line that names a spec's job is that
// spec's, any other the last one's, so that none goes unnoticed.
func blame(ts []*T, left []string) map[int][]string {
	lines := map[int][]string{}
	for _, line := range left {
		whose := len(ts) - 1
		for i, t := range ts {
			if strings.Contains(line, t.job()) {
				whose = i
			}
		}
		lines[whose] = append(lines[whose], line)
	}
	return lines
}
