package adapter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// grace is how long an adapter may take to end once it was asked to.
const grace = 3 * time.Second

// Runtime drives an executable as a sandbox.Runtime.
type Runtime struct {
	program string
	setup   conformance.Setup
	name    string

	mu     sync.Mutex
	closed bool
	cancel context.CancelFunc
	ctx    context.Context //nolint:containedctx // it ends the runs when the runtime is closed
	runs   sync.WaitGroup
}

var _ sandbox.Runtime = (*Runtime)(nil)

// Target asks the executable what it claims, and makes a target of it.
func Target(ctx context.Context, program string) (*conformance.Target, error) {
	program, err := filepath.Abs(program)
	if err != nil {
		return nil, err
	}
	has, err := capabilities(ctx, program, conformance.Setup{})
	if err != nil {
		return nil, fmt.Errorf("asking the adapter what it claims: %w", err)
	}
	target := &conformance.Target{
		Name: has.Name, Versions: has.Versions, Scanner: has.Scanner, Image: has.Image,
		New: func(_ context.Context, s conformance.Setup) (sandbox.Runtime, error) {
			return newRuntime(program, has.Name, s), nil
		},
		Program: func(s conformance.Setup, name string) string { return inside(program, s, name) },
		Left: func(s conformance.Setup) ([]string, error) {
			now, err := capabilities(context.Background(), program, s)
			return now.Leftovers, err
		},
		Room: func(_ context.Context, s conformance.Setup) (sandbox.Room, error) {
			return sandbox.Room{Scanner: has.Scanner, Image: has.Image, Commands: []string{inside(program, s, "hostile")}}, nil
		},
	}
	if has.Target != "" {
		target.Name = has.Target
	}
	if target.Scanner == "" {
		target.Scanner = "conformance"
	}
	if target.Versions == nil {
		target.Versions = map[string]string{}
	}
	for _, c := range has.Capabilities {
		target.Capabilities = append(target.Capabilities, conformance.Capability(c))
	}
	return target, nil
}

// inside asks where a program is in a room: the names carry the session.
func inside(program string, s conformance.Setup, name string) string {
	has, err := capabilities(context.Background(), program, s)
	if err == nil && has.Programs[name] != "" {
		return has.Programs[name]
	}
	return s.Programs[name]
}

func capabilities(ctx context.Context, program string, s conformance.Setup) (Capabilities, error) {
	var has Capabilities
	err := (&Runtime{program: program, setup: s, name: "adapter"}).call(ctx, "capabilities", struct{}{}, &has)
	if err == nil && has.Name == "" {
		err = errors.New("the answer has no name")
	}
	return has, err
}

func newRuntime(program, name string, s conformance.Setup) *Runtime {
	r := &Runtime{program: program, name: name, setup: s}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Name implements sandbox.Runtime.
func (r *Runtime) Name() string { return r.name }

// Run implements sandbox.Runtime.
func (r *Runtime) Run(ctx context.Context, spec sandbox.RunSpec) (sandbox.RunOutput, error) {
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return sandbox.RunOutput{}, r.named(&sandbox.Error{Kind: sandbox.Cancelled, Err: err}, spec)
	}
	defer done()
	request := Request(spec)
	if spec.Bundle.Artifact != nil {
		file, err := r.spool(ctx, spec.Bundle.Artifact)
		if err != nil {
			return sandbox.RunOutput{}, r.named(&sandbox.Error{Kind: sandbox.Crashed, Code: sandbox.CodeFetch, Err: err}, spec)
		}
		defer func() { _ = os.Remove(file) }()
		request.Artifact, request.ArtifactSize = file, spec.Bundle.Artifact.Size()
	}
	var answer RunAnswer
	if err := r.call(ctx, "run", request, &answer); err != nil {
		return sandbox.RunOutput{}, r.named(err, spec)
	}
	return sandbox.RunOutput{Status: answer.Status, Stdout: answer.Stdout, StderrTail: answer.StderrTail, Result: answer.Result}, nil
}

func (r *Runtime) spool(ctx context.Context, a sandbox.Artifact) (string, error) {
	in, err := a.Open(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = in.Close() }()
	out, err := os.CreateTemp(r.setup.Dir, "artifact-")
	if err != nil {
		return "", err
	}
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close()
		return "", errors.Join(err, os.Remove(out.Name()))
	}
	return out.Name(), out.Close()
}

// Probe implements sandbox.Runtime.
func (r *Runtime) Probe(ctx context.Context, room sandbox.Room) (sandbox.ProbeReport, error) {
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return sandbox.ProbeReport{}, &sandbox.Error{Kind: sandbox.Cancelled, Runtime: r.name, Err: err}
	}
	defer done()
	request := ProbeRequest{Scanner: room.Scanner, Image: room.Image, Commands: room.Commands, Limits: room.Limits}
	for _, c := range r.setup.Canaries {
		request.Canaries = append(request.Canaries, c.String())
	}
	var a ProbeAnswer
	if err := r.call(ctx, "probe", request, &a); err != nil {
		return sandbox.ProbeReport{}, err
	}
	return sandbox.ProbeReport{
		Runtime: r.name, Room: room, Skipped: a.Skipped, Agent: a.Agent, UID: a.UID,
		Verdicts: a.Verdicts, Commands: a.Commands, Hint: a.Hint,
	}, nil
}

// Sweep implements sandbox.Runtime.
func (r *Runtime) Sweep(ctx context.Context, policy sandbox.SweepPolicy) (sandbox.SweepReport, error) {
	var a SweepAnswer
	if err := r.call(ctx, "sweep", SweepRequest{policy.Worker, policy.OlderThan.Milliseconds()}, &a); err != nil {
		return sandbox.SweepReport{}, err
	}
	var swept sandbox.SweepReport
	for _, o := range a.Removed {
		swept.Removed = append(swept.Removed, sandbox.Orphan{Kind: o.Kind, Name: o.Name, Worker: o.Worker, Age: time.Duration(o.AgeMS) * time.Millisecond})
	}
	return swept, nil
}

// Close implements sandbox.Runtime: runs in flight are cancelled and waited for.
func (r *Runtime) Close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.runs.Wait()
	return nil
}

// begin ties a run to the runtime's life.
func (r *Runtime) begin(ctx context.Context) (context.Context, func(), error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, nil, errors.New("the runtime is closed")
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	r.runs.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(r.ctx, cancel)
	return ctx, func() { stop(); cancel(); r.runs.Done() }, nil
}

func (r *Runtime) named(err error, spec sandbox.RunSpec) error {
	var e *sandbox.Error
	if !errors.As(err, &e) {
		e = &sandbox.Error{Kind: sandbox.Crashed, Code: sandbox.CodeInternal, Err: err}
	}
	e.Runtime, e.Run = r.name, spec.Label.String()
	return e
}

// call starts the executable for one verb.
func (r *Runtime) call(ctx context.Context, verb string, request, answer any) error {
	document, err := json.Marshal(request)
	if err != nil {
		return err
	}
	programs, err := json.Marshal(r.setup.Programs)
	if err != nil {
		return err
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, r.program, verb)
	cmd.Env = append(os.Environ(), "SANDBOX_CONFORMANCE_PROGRAMS="+string(programs), "SANDBOX_CONFORMANCE_DIR="+r.setup.Dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(document), &stdout, &stderr
	// Asked to end, it can still clean up; a child that holds its output must
	// not hold the suite.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = grace
	err = cmd.Run()
	if ctx.Err() != nil {
		return &sandbox.Error{Kind: sandbox.Cancelled, Runtime: r.name, Stderr: tail(stderr.String()), Err: ctx.Err()}
	}
	if err != nil {
		return r.failure(err, cmd, stdout.Bytes(), stderr.String())
	}
	if err := json.Unmarshal(stdout.Bytes(), answer); err != nil {
		return &sandbox.Error{Kind: sandbox.ResultInvalid, Runtime: r.name, Detail: "the adapter's answer to " + verb + " does not parse", Stderr: tail(stderr.String()), Err: err}
	}
	return nil
}

// failure turns an exit status and what was printed into an error: 2 is a
// refusal, whatever is printed.
func (r *Runtime) failure(err error, cmd *exec.Cmd, stdout []byte, stderr string) error {
	e := &sandbox.Error{Kind: sandbox.Crashed, Runtime: r.name, Stderr: tail(stderr)}
	var said Error
	if json.Unmarshal(stdout, &said) == nil && said.Kind != "" {
		e.Kind, e.Code, e.Detail, e.Hint = sandbox.Kind(said.Kind), sandbox.Code(said.Code), said.Detail, said.Hint
		e.OOMKilled, e.Signal = said.OOMKilled, said.Signal
	} else {
		e.Err = err
	}
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 2 {
		e.Kind = sandbox.Refused
	}
	return e
}

func tail(s string) string {
	const most = 8 << 10
	if len(s) > most {
		return s[len(s)-most:]
	}
	return s
}
