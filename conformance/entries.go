package conformance

import (
	"context"
	"testing"

	"github.com/onsi/ginkgo/v2"

	"github.com/batleforc/batlehub-sandbox/conformance/report"
)

func contextDone(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	cancel()
	return ctx, cancel
}

// Describe adds every spec to the caller's own Ginkgo suite, in one ordered
// container named after the target. Labels are the group and the id, so that
// --label-filter=W or --label-filter=W14 selects; what is not claimed or not
// run is skipped with its reason, and is in the report all the same.
//
// target is read when the suite runs, not when it is described, so that a
// BeforeSuite may fill it in.
func Describe(target *Target, options Options) bool {
	return ginkgo.Describe("sandbox conformance", ginkgo.Ordered, ginkgo.ContinueOnFailure, func() {
		var session *Session
		ginkgo.BeforeAll(func(ctx context.Context) {
			var err error
			// The session outlives this node, and its context with it.
			session, err = Open(context.WithoutCancel(ctx), target, options)
			if err != nil {
				ginkgo.Fail(err.Error())
			}
		})
		ginkgo.AfterAll(func() {
			if session == nil {
				return
			}
			result := session.Report()
			if err := session.Close(); err != nil {
				ginkgo.Fail("closing the suite: " + err.Error())
			}
			if options.Out != "" {
				if err := report.Write(options.Out, result); err != nil {
					ginkgo.Fail(err.Error())
				}
			}
		})
		for _, spec := range Specs() {
			if options.Focus != nil && !options.Focus(spec) {
				continue
			}
			ginkgo.It(spec.ID+" "+spec.Title, ginkgo.Label(string(spec.Group), spec.ID), func(ctx context.Context) {
				switch r := session.Check(ctx, spec); r.Verdict {
				case report.Pass:
				case report.NotClaimed, report.NotRun:
					ginkgo.Skip(string(r.Verdict) + ": " + r.Reason)
				default:
					ginkgo.AddReportEntry("evidence", r.Evidence)
					ginkgo.Fail(r.Reason)
				}
			})
		}
	})
}

// Run checks every spec in a plain Go test, each as a subtest of its own, and
// returns the report.
func Run(t *testing.T, target Target, options Options) *report.Report {
	t.Helper()
	session, err := Open(t.Context(), &target, options)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range Specs() {
		if options.Focus != nil && !options.Focus(spec) {
			continue
		}
		t.Run(spec.ID, func(t *testing.T) {
			switch r := session.Check(t.Context(), spec); r.Verdict {
			case report.Pass:
			case report.NotClaimed, report.NotRun:
				t.Skipf("%s: %s", r.Verdict, r.Reason)
			default:
				t.Errorf("%s: %s", spec.Title, r.Reason)
			}
		})
	}
	result := session.Report()
	if err := session.Close(); err != nil {
		t.Errorf("closing the suite: %v", err)
	}
	if options.Out != "" {
		if err := report.Write(options.Out, result); err != nil {
			t.Error(err)
		}
	}
	return result
}
