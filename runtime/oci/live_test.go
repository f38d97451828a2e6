package oci

import (
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// eachEngine runs a test on every engine there is. Each gets a worker of its
// own, of which nothing may be left.
func eachEngine(t *testing.T, test func(t *testing.T, l *live)) {
	for _, engine := range []string{Podman, Docker} {
		t.Run(engine, func(t *testing.T) {
			testkit.Engine(t, engine)
			if !root() {
				t.Skip("not run: rootful engines are tested as root")
			}
			test(t, newLive(t, engine))
		})
	}
}

// live is a real engine and a runtime over it.
type live struct {
	*Runtime
	t      *testing.T
	engine string
	worker string
	image  string
}

func newLive(t *testing.T, engine string, change ...func(*Config)) *live {
	t.Helper()
	l := &live{t: t, engine: engine, worker: "t" + strings.ToLower(rand.Text()[:10])}
	l.image = testkit.AgentImage(t, engine, nil, nil)
	l.Runtime = l.with(change...)
	t.Cleanup(func() {
		for _, kind := range [][]string{{"ps", "-a"}, {"network", "ls"}} {
			if left := l.say(append(kind, "-q", "--filter", "label="+LabelWorker+"="+l.worker)...); left != "" {
				t.Errorf("left behind: %q", left)
			}
		}
		if left, _ := os.ReadDir(l.config.RunDir); len(left) > 0 {
			t.Errorf("directories are left: %v", left)
		}
	})
	return l
}

// with is another runtime of the same worker.
func (l *live) with(change ...func(*Config)) *Runtime {
	l.t.Helper()
	c := Config{Engine: l.engine, Image: l.image, Worker: l.worker, RunDir: filepath.Join(testkit.Dir(l.t), "runs")}
	for _, f := range change {
		f(&c)
	}
	r, err := New(c)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		if err := r.Close(); err != nil {
			l.t.Error(err)
		}
	})
	return r
}

// say is a call of the engine, and what it printed.
func (l *live) say(args ...string) string {
	l.t.Helper()
	var stderr bytes.Buffer
	// See callTime; a run may have to wait for others' longer.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, l.engine, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		l.t.Fatalf("%s %q: %v\n%s", l.engine, args, err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

func (l *live) spec(argv ...string) sandbox.RunSpec {
	return sandbox.RunSpec{
		Bundle: sandbox.Bundle{Policy: wire.DefaultExtractPolicy()}, Argv: append([]string{"tool"}, argv...),
		StartTimeout: time.Minute, Timeout: time.Minute, Limits: wire.DefaultLimits(),
		Label: wire.Label{Worker: l.worker, Job: "j-" + l.worker, Scanner: "tool", Attempt: 1},
	}
}

// must runs a command in the sandbox that has to succeed.
func (l *live) must(argv ...string) string {
	l.t.Helper()
	out, err := l.Run(l.t.Context(), l.spec(argv...))
	if err != nil {
		l.t.Fatal(err)
	}
	if out.Status == nil || *out.Status != 0 {
		l.t.Fatalf("%q: status %v, %s", argv, out.Status, out.StderrTail)
	}
	return string(out.Stdout)
}
