package verdict

import (
	"errors"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// A probe that brought a result and could not be cleaned up is no sandbox that
// never started.
func TestAProbeThatRanIsNotOneThatNeverStarted(t *testing.T) {
	left := &sandbox.Error{Kind: sandbox.Crashed, Code: sandbox.CodeHostRefused, Err: errors.New("pod x may be left")}
	var report sandbox.ProbeReport
	if fault := Of(&report, &wire.Result{}, left, Hints{}); fault != left || len(report.Verdicts) != 0 {
		t.Errorf("with a result: %v, %+v", fault, report.Verdicts)
	}
	if fault := Of(&report, nil, left, Hints{}); fault != nil || len(report.Verdicts) != 1 || report.Verdicts[0].ID != wire.AssertResult {
		t.Errorf("without: %v, %+v", fault, report.Verdicts)
	}
}
