package bundle

import (
	faults "github.com/batleforc/batlehub-sandbox/runtime/internal/fail"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Answer is what a run brought back.
type Answer struct {
	Result *wire.Result
	Stdout []byte
}

// Deliver is the end of a runtime's Run: what the answer means to the caller,
// or the fault that there is in its place. Its error is a *sandbox.Error that
// names the runtime and the run.
func Deliver(runtime string, label wire.Label, a Answer, fault *sandbox.Error) (out sandbox.RunOutput, err error) {
	if fault == nil {
		out, fault = Output(a.Result, a.Stdout)
	}
	if fault != nil {
		return out, faults.Named(fault, runtime, label)
	}
	return out, nil
}
