package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/batleforc/batlehub-sandbox/conformance/report"
)

// partial is the status of a report in which nothing failed, of a target that
// is known not to claim a part of the core: 0 when it is that part exactly. A
// gap that is new is a failure, and so is one that has closed, for nobody would
// notice it open again.
func partial(r *report.Report, lacking []string, stderr io.Writer) int {
	code := exitPass
	for _, s := range r.Specs {
		known := slices.Contains(lacking, s.ID)
		switch {
		case !s.Core && !known:
		case s.Verdict == report.NotRun:
			code = max(code, exitPartial)
		case s.Verdict == report.NotClaimed && !known:
			fmt.Fprintf(stderr, "sandbox-conformance: %s is not claimed, and --expect-partial does not name it: %s\n", s.ID, s.Reason)
			return exitFail
		case s.Verdict == report.Pass && known:
			fmt.Fprintf(stderr, "sandbox-conformance: %s passes: take it off --expect-partial\n", s.ID)
			return exitFail
		}
	}
	return code
}
