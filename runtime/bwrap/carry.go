package bwrap

import (
	"context"
	"fmt"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/fail"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/process"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// carry runs bwrap over dir and reads what the agent left there.
func (r *Runtime) carry(
	ctx context.Context, clock bundle.Clock, dir *bundle.Dir, spec sandbox.RunSpec, binary, room string,
) (bundle.Answer, *sandbox.Error) {
	ctx, cancel := clock.Watch(ctx, dir)
	defer cancel()
	c := r.config
	c.Binary = binary
	exit, err := process.Run(ctx, process.Spec{
		Path: binary, Argv: Argv(c, spec, Dirs{Room: room, Work: dir.Work()}),
		UID: uint32(r.uid), GID: uint32(r.uid),
	})
	switch {
	case ctx.Err() != nil && (err != nil || exit.Killed && exit.Status != 0):
		e := bundle.EndError(ctx, dir)
		e.Stderr = exit.Stderr
		return bundle.Answer{}, e
	case process.IsMissing(err):
		return bundle.Answer{}, missing(binary, err)
	case err != nil:
		return bundle.Answer{}, &sandbox.Error{Kind: sandbox.Crashed, Code: sandbox.CodeInternal, Detail: "starting bwrap", Err: err}
	}
	return r.collect(dir, exit)
}

// collect reads the result of a bwrap that has ended. A run succeeded if its
// bwrap ended well and a result is there: neither is enough alone.
func (r *Runtime) collect(dir *bundle.Dir, exit process.Exit) (bundle.Answer, *sandbox.Error) {
	if exit.Status != 0 {
		return bundle.Answer{}, r.broken(dir, exit)
	}
	result, stdout, err := dir.Result()
	if err == nil {
		return bundle.Answer{Result: result, Stdout: stdout}, nil
	}
	e := bundle.ReadError(err)
	e.Stderr = exit.Stderr
	if e.Code == sandbox.CodeNoResult {
		e.Err = nil
		e.Detail = "bwrap exited 0 and no result came back"
		e.Hint = docs
	}
	return bundle.Answer{}, e
}

// broken is a bwrap that did not end well. Whatever stands at the result's
// place then, the agent did not get to say that it is the result.
func (r *Runtime) broken(dir *bundle.Dir, exit process.Exit) *sandbox.Error {
	e := &sandbox.Error{Kind: sandbox.Crashed, Code: sandbox.CodeNoResult, Stderr: exit.Stderr, Hint: docs}
	how := fmt.Sprintf("bwrap exited %d", exit.Status)
	if exit.Signal != 0 {
		e.Signal = fail.Signal(exit.Signal)
		how = "bwrap was killed by " + e.Signal
	}
	if words := bundle.AgentExit(exit.Status); words != "" {
		how += fmt.Sprintf(" (agent: %s)", words)
		if dir.Full() {
			e.Code = sandbox.CodeNoSpace
			e.Hint = fmt.Sprintf("free space below %s, or put run directories elsewhere", r.store.Parent())
		}
	}
	e.Detail = how + " and no result came back"
	r.recognise(e)
	return e
}
