package sandboxtest

import (
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Exited is the answer of a scanner that printed stdout and exited.
func Exited(status int, stdout []byte) sandbox.RunOutput {
	return sandbox.RunOutput{Status: &status, Stdout: stdout, Result: wire.Result{
		Wire: wire.Version, Agent: "sandboxtest", Ending: wire.EndExited, Status: &status, StdoutBytes: int64(len(stdout)),
	}}
}

// Refused is the answer to an artifact that broke a rule of the policy.
func Refused(refusal wire.Refusal) sandbox.RunOutput {
	return sandbox.RunOutput{Result: wire.Result{
		Wire: wire.Version, Agent: "sandboxtest", Ending: wire.EndRefused, Refusal: &refusal,
	}}
}

// Holds is the report of a probe of which every assertion passed.
func Holds(runtime string, room sandbox.Room) sandbox.ProbeReport {
	report := sandbox.ProbeReport{Runtime: runtime, Room: room, Agent: "sandboxtest", UID: 65532}
	for _, id := range wire.Assertions {
		report.Verdicts = append(report.Verdicts, wire.Verdict{ID: id, Outcome: wire.Pass, Detail: "holds"})
	}
	return report
}

// Fails is the report of a probe of which one assertion failed.
func Fails(runtime string, room sandbox.Room, id wire.AssertionID, detail, hint string) sandbox.ProbeReport {
	report := Holds(runtime, room)
	report.Hint = hint
	for i := range report.Verdicts {
		if report.Verdicts[i].ID == id {
			report.Verdicts[i] = wire.Verdict{ID: id, Outcome: wire.Fail, Detail: detail}
		}
	}
	return report
}
