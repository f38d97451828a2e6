package crun

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
)

// ended is a tracer whose strace has written a trace and ended.
func ended(t *testing.T, dir string) *tracer {
	t.Helper()
	path := strace(t, `while [ "$1" != -o ]; do shift; done; echo '1 execve("`+AgentPath+`", [""]) = 0' >"$2"`)
	tr, err := engine{}.attach(t.Context(), path, dir, os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tr.close)
	<-tr.ended
	if err := tr.fault(); err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestATraceEndsWithStrace(t *testing.T) {
	calls, err := ended(t, testkit.Dir(t)).calls(t.Context())
	if err != nil || len(calls) != 1 || calls[0] != "execve" {
		t.Errorf("got %q, %v", calls, err)
	}
}

func TestATraceThatSomethingHoldsOpenIsNotWaitedForWithoutAnEnd(t *testing.T) {
	dir := testkit.Dir(t)
	tr := ended(t, dir)
	held, err := os.OpenFile(filepath.Join(dir, "trace"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = tr.calls(ctx)
	if _, is := errors.AsType[*traceError](err); !is {
		t.Errorf("got %v", err)
	}
	tr.close()
	select {
	case <-tr.parsed:
	case <-time.After(10 * time.Second):
		t.Error("it is still read")
	}
}
