package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Program is a scanner as a function. It should return when ctx ends.
type Program func(ctx context.Context, call Call) Answer

// Call is what a Program is given.
type Call struct {
	Argv []string
	// Files are the bundle's entries by path: each entry's bytes as they are,
	// for nothing is unpacked here.
	Files   map[string][]byte
	Network bool
}

// Answer is what a Program comes to.
type Answer struct {
	Status int
	Stdout []byte
	Stderr string
	// Signal, if set, is what killed it; there is no status then.
	Signal string
}

// Handle makes p the program of that name: what a run with that argv[0]
// executes.
func (r *Runtime) Handle(name string, p Program) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.programs[name] = p
}

// Script returns an OnRun that answers run after run with the steps, and every
// further one with the last step.
func Script(steps ...Step) func(context.Context, sandbox.RunSpec) (sandbox.RunOutput, error) {
	next := make(chan int, 1)
	next <- 0
	return func(ctx context.Context, _ sandbox.RunSpec) (sandbox.RunOutput, error) {
		i := <-next
		next <- min(i+1, len(steps)-1)
		step := steps[i]
		if step.Until != nil {
			select {
			case <-step.Until:
			case <-ctx.Done():
				return sandbox.RunOutput{}, context.Cause(ctx)
			}
		}
		return step.Output, step.Err
	}
}

// Step is one answer of a Script.
type Step struct {
	// Until, if set, holds the run up until it is closed.
	Until  <-chan struct{}
	Output sandbox.RunOutput
	Err    error
}

// play carries a run out in memory.
func (r *Runtime) play(ctx context.Context, spec sandbox.RunSpec) (sandbox.RunOutput, error) {
	if err := validate(spec); err != nil {
		return sandbox.RunOutput{}, &sandbox.Error{Kind: sandbox.Refused, Code: sandbox.CodeConfig, Err: err}
	}
	r.mu.Lock()
	programs := maps.Clone(r.programs)
	r.mu.Unlock()
	program, ok := programs[spec.Argv[0]]
	switch {
	case !ok && len(programs) == 0:
		return Exited(0, nil), nil
	case !ok:
		return sandbox.RunOutput{}, &sandbox.Error{
			Kind: sandbox.Crashed, Code: sandbox.CodeCommandMissing, Detail: fmt.Sprintf("there is no program %q", spec.Argv[0]),
		}
	}
	files, err := lay(ctx, spec.Bundle)
	if err != nil {
		return sandbox.RunOutput{}, &sandbox.Error{Kind: sandbox.Crashed, Code: sandbox.CodeFetch, Err: err}
	}
	return execute(ctx, program, Call{Argv: spec.Argv, Files: files, Network: spec.Network}, spec)
}

var errRun = errors.New("the run took longer than it may")

func execute(ctx context.Context, p Program, call Call, spec sandbox.RunSpec) (sandbox.RunOutput, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, spec.Timeout, errRun)
	defer cancel()
	a := p(ctx, call)
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errRun):
		return sandbox.RunOutput{}, &sandbox.Error{Kind: sandbox.RunTimeout, Detail: errRun.Error()}
	case cause != nil:
		return sandbox.RunOutput{}, cause
	case len(a.Stdout) > wire.StdoutCap:
		return sandbox.RunOutput{}, &sandbox.Error{Kind: sandbox.ResultInvalid, Code: sandbox.CodeStdoutCap}
	}
	out := Exited(a.Status, a.Stdout)
	out.StderrTail = a.Stderr[max(0, len(a.Stderr)-wire.StderrTailCap):]
	out.Result.StderrTail, out.Result.StderrBytes = out.StderrTail, int64(len(a.Stderr))
	if a.Signal != "" {
		out.Status, out.Result.Status = nil, nil
		out.Result.Ending, out.Result.Signal = wire.EndSignaled, a.Signal
	}
	return out, nil
}

// validate refuses what an agent would.
func validate(spec sandbox.RunSpec) error {
	m := wire.Manifest{
		Wire: wire.Version, Label: spec.Label, Policy: spec.Bundle.Policy, Argv: spec.Argv, Limits: spec.Limits,
		TimeoutMS: spec.Timeout.Milliseconds(), Network: spec.Network,
	}
	for _, e := range spec.Bundle.Entries {
		if e.URL != "" {
			if e.URL != wire.ArtifactURL || spec.Bundle.Artifact == nil {
				return fmt.Errorf("entry %q: an entry is inline or the bundle's artifact", e.Path)
			}
			e.URL, e.Size = "file:///work/in/artifact", spec.Bundle.Artifact.Size()
		}
		m.Entries = append(m.Entries, e)
	}
	return m.Validate()
}

func lay(ctx context.Context, b sandbox.Bundle) (map[string][]byte, error) {
	files := make(map[string][]byte)
	for _, e := range b.Entries {
		if e.URL == "" {
			files[e.Path.String()] = e.Inline
			continue
		}
		content, err := fetch(ctx, b.Artifact)
		if err != nil {
			return nil, err
		}
		files[e.Path.String()] = content
	}
	return files, nil
}

func fetch(ctx context.Context, a sandbox.Artifact) ([]byte, error) {
	r, err := a.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, a.Size()+1))
	if err == nil && int64(len(b)) != a.Size() {
		err = fmt.Errorf("the artifact does not have the %d bytes that were announced", a.Size())
	}
	return b, err
}
