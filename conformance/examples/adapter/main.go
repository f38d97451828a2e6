// Command adapter shows how a runtime is handed to the suite as a program: it
// speaks the port's verbs over JSON, around the runtime without walls. It
// passes group C, and fails the walls, as that runtime does.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/batleforc/batlehub-sandbox/conformance/adapter"
	"github.com/batleforc/batlehub-sandbox/runtime/none"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// The statuses of the protocol.
const (
	exitAnswer  = 0
	exitFailed  = 1
	exitRefused = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	answer, err := verb(ctx, os.Args[1:], os.Stdin)
	stop()
	os.Exit(print(answer, err))
}

// print writes an answer, or an error's document, and says how to exit.
func print(answer any, err error) int {
	if err == nil {
		if err = json.NewEncoder(os.Stdout).Encode(answer); err == nil {
			return exitAnswer
		}
	}
	fmt.Fprintln(os.Stderr, err)
	var e *sandbox.Error
	if !errors.As(err, &e) {
		e = &sandbox.Error{Kind: sandbox.Crashed, Code: sandbox.CodeInternal, Detail: err.Error()}
	}
	detail := e.Detail
	if e.Err != nil {
		detail += ": " + e.Err.Error()
	}
	_ = json.NewEncoder(os.Stdout).Encode(adapter.Error{
		Kind: string(e.Kind), Code: string(e.Code), Detail: detail, Hint: e.Hint, OOMKilled: e.OOMKilled, Signal: e.Signal,
	})
	if e.Kind == sandbox.Refused {
		return exitRefused
	}
	return exitFailed
}

func verb(ctx context.Context, args []string, in io.Reader) (any, error) {
	if len(args) != 1 {
		return nil, errors.New("usage: adapter capabilities | run | probe | sweep")
	}
	runs := filepath.Join(os.Getenv("SANDBOX_CONFORMANCE_DIR"), "runs")
	if args[0] == "capabilities" {
		return capabilities(runs)
	}
	runtime, err := none.New(none.Config{Unsafe: true, RunDir: runs})
	if err != nil {
		return nil, err
	}
	defer func() { _ = runtime.Close() }()
	switch args[0] {
	case "run":
		return run(ctx, runtime, in)
	case "probe":
		report, err := runtime.Probe(ctx, sandbox.Room{})
		return adapter.ProbeAnswer{Skipped: report.Skipped}, err
	case "sweep":
		return sweep(ctx, runtime, in)
	}
	return nil, &sandbox.Error{Kind: sandbox.Refused, Code: sandbox.CodeConfig, Detail: "unknown verb " + args[0]}
}

func capabilities(runs string) (any, error) {
	answer := adapter.Capabilities{
		Name: "none", Target: "none-adapter", Capabilities: []string{"results", "timeouts", "sweep", "network"},
		Versions: map[string]string{}, Scanner: "conformance",
	}
	entries, err := os.ReadDir(runs)
	for _, e := range entries {
		answer.Leftovers = append(answer.Leftovers, "run directory "+e.Name())
	}
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return answer, err
}

func run(ctx context.Context, runtime sandbox.Runtime, in io.Reader) (any, error) {
	var request adapter.RunRequest
	if err := json.NewDecoder(in).Decode(&request); err != nil {
		return nil, &sandbox.Error{Kind: sandbox.Refused, Code: sandbox.CodeConfig, Err: err}
	}
	spec := request.Spec()
	if spec.Image != "" {
		return nil, &sandbox.Error{Kind: sandbox.Refused, Code: sandbox.CodeConfig, Detail: "there are no images here"}
	}
	if request.Artifact != "" {
		spec.Bundle.Artifact = artifact{request.Artifact, request.ArtifactSize}
	}
	out, err := runtime.Run(ctx, spec)
	return adapter.RunAnswer{Status: out.Status, Stdout: out.Stdout, StderrTail: out.StderrTail, Result: out.Result}, err
}

func sweep(ctx context.Context, runtime sandbox.Runtime, in io.Reader) (any, error) {
	var request adapter.SweepRequest
	if err := json.NewDecoder(in).Decode(&request); err != nil {
		return nil, err
	}
	report, err := runtime.Sweep(ctx, sandbox.SweepPolicy{Worker: request.Worker, OlderThan: time.Duration(request.OlderThanMS) * time.Millisecond})
	answer := adapter.SweepAnswer{Removed: []adapter.Orphan{}}
	for _, o := range report.Removed {
		answer.Removed = append(answer.Removed, adapter.Orphan{Kind: o.Kind, Name: o.Name, Worker: o.Worker, AgeMS: o.Age.Milliseconds()})
	}
	return answer, err
}

// artifact is a file of this host.
type artifact struct {
	path string
	size int64
}

func (a artifact) Key() string                                 { return "" }
func (a artifact) Size() int64                                 { return a.size }
func (a artifact) Open(context.Context) (io.ReadCloser, error) { return os.Open(a.path) }
