package adapter_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/conformance/adapter"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// script is an adapter that answers "capabilities" and does what body says for
// every other verb.
func script(t *testing.T, body string) sandbox.Runtime {
	t.Helper()
	name := filepath.Join(t.TempDir(), "adapter")
	text := "#!/bin/sh\nif [ \"$1\" = capabilities ]; then echo '{\"name\":\"shell\",\"capabilities\":[\"results\"]}'; exit 0; fi\n" + body + "\n"
	if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	target, err := adapter.Target(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if target.Name != "shell" || !target.Claims(conformance.Results) || target.Claims(conformance.Walls) {
		t.Errorf("the target is %s and claims %v", target.Name, target.Capabilities)
	}
	r, err := target.New(t.Context(), conformance.Setup{Dir: t.TempDir(), Programs: map[string]string{"hostile": "/x"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func spec() sandbox.RunSpec {
	return sandbox.RunSpec{Argv: []string{"x"}, Timeout: time.Second, StartTimeout: time.Second, Label: wire.Label{Worker: "w", Job: "j", Scanner: "s", Attempt: 1}}
}

func TestAnAnswerOfAnAdapterIsARunsOutput(t *testing.T) {
	r := script(t, `echo '{"status":3,"stdout":"aGVsbG8=","stderr_tail":"e","result":{"wire":1,"ending":"exited"}}'`)
	out, err := r.Run(t.Context(), spec())
	if err != nil || out.Status == nil || *out.Status != 3 || string(out.Stdout) != "hello" || out.Result.Ending != wire.EndExited {
		t.Errorf("the output is %+v, %v", out, err)
	}
}

func TestExitStatusTwoOfAnAdapterIsARefusal(t *testing.T) {
	_, err := script(t, "echo no >&2; exit 2").Run(t.Context(), spec())
	if sandbox.KindOf(err) != sandbox.Refused || !strings.Contains(err.Error(), "no") {
		t.Errorf("the error is %v", err)
	}
}

func TestAnyOtherFailureOfAnAdapterIsAFailureWithItsOwnWords(t *testing.T) {
	_, err := script(t, `echo '{"kind":"run_timeout","detail":"too long"}'; exit 1`).Run(t.Context(), spec())
	if sandbox.KindOf(err) != sandbox.RunTimeout || !strings.Contains(err.Error(), "too long") {
		t.Errorf("the error is %v", err)
	}
	_, err = script(t, "exit 9").Run(t.Context(), spec())
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Kind != sandbox.Crashed || e.Runtime != "shell" || e.Run != "j-s-1" {
		t.Errorf("the error is %v", err)
	}
}

func TestAnAdapterThatPrintsNoAnswerIsInvalid(t *testing.T) {
	_, err := script(t, "echo gibberish").Run(t.Context(), spec())
	if sandbox.KindOf(err) != sandbox.ResultInvalid {
		t.Errorf("the error is %v", err)
	}
}

func TestACancelledAdapterIsAskedToEndAndIsEnded(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "asked")
	r := script(t, "trap 'echo yes > "+mark+"; exit 1' TERM; touch "+mark+".ready; while :; do sleep 0.02; done")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := r.Run(ctx, spec()); done <- err }()
	deadline := time.After(20 * time.Second)
	for {
		if _, err := os.Stat(mark + ".ready"); err == nil {
			break
		}
		select {
		case <-deadline:
			t.Fatal("the adapter never started")
		case <-time.After(5 * time.Millisecond):
		}
	}
	cancel()
	if err := <-done; sandbox.KindOf(err) != sandbox.Cancelled {
		t.Errorf("the error is %v", err)
	}
	if b, err := os.ReadFile(mark); err != nil || !bytes.Equal(b, []byte("yes\n")) {
		t.Errorf("the adapter was not asked: %q, %v", b, err)
	}
}

func TestAnAdapterWithoutANameIsNoTarget(t *testing.T) {
	name := filepath.Join(t.TempDir(), "adapter")
	if err := os.WriteFile(name, []byte("#!/bin/sh\necho '{}'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := adapter.Target(t.Context(), name); err == nil {
		t.Error("an answer without a name was taken")
	}
}
