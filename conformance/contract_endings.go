package conformance

import (
	"context"
	"time"

	"github.com/onsi/gomega"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// ends runs spec and expects an error of a kind, no later than promised.
func (t *T) ends(ctx context.Context, spec sandbox.RunSpec, kind sandbox.Kind, within time.Duration) {
	started := time.Now()
	_, err := t.RunCtx(ctx, spec)
	took := time.Since(started)
	t.Expect(err).To(gomega.HaveOccurred())
	t.Expect(sandbox.KindOf(err)).To(gomega.Equal(kind), "%v", err)
	t.Expect(took).To(gomega.BeNumerically("<", within+t.s.options.Bounds.Grace), "it took longer than promised")
}

func hangTimesOut(t *T) {
	spec := t.HostileSpec("hang")
	spec.Timeout = t.s.options.Bounds.Short
	t.ends(t.ctx, spec, sandbox.RunTimeout, spec.StartTimeout+spec.Timeout)
}

func daemonsTimeOut(t *T) {
	spec := t.HostileSpec("daemon-and-hang", t.s.token)
	spec.Timeout = t.s.options.Bounds.Short
	t.ends(t.ctx, spec, sandbox.RunTimeout, spec.StartTimeout+spec.Timeout)
}

func cancelled(t *T) {
	for _, after := range []time.Duration{0, 3 * time.Millisecond, 30 * time.Millisecond, 200 * time.Millisecond} {
		ctx, cancel := context.WithTimeoutCause(t.ctx, after, context.Canceled)
		spec := t.HostileSpec("daemon-and-hang", t.s.token)
		t.ends(ctx, spec, sandbox.Cancelled, after)
		cancel()
	}
}

func cancelledBefore(t *T) {
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	t.ends(ctx, t.HostileSpec("print", "x"), sandbox.Cancelled, 0)
}

func closeEndsRuns(t *T) {
	runtime, err := t.s.target.New(t.ctx, t.s.setup)
	t.Expect(err).NotTo(gomega.HaveOccurred())
	done := make(chan error, 1)
	spec := t.HostileSpec("hang")
	go func() {
		_, err := runtime.Run(t.ctx, spec)
		done <- err
	}()
	// The run is in flight once the host shows its process, where it can.
	t.s.eventually(t.s.running)
	t.Expect(runtime.Close()).To(gomega.Succeed())
	select {
	case err := <-done:
		t.Expect(err).To(gomega.HaveOccurred())
		t.Expect(sandbox.KindOf(err)).To(gomega.Equal(sandbox.Cancelled), "%v", err)
	case <-time.After(t.s.options.Bounds.Grace):
		t.Fail("Close returned, and its run goes on")
	}
	_, err = runtime.Run(t.ctx, t.HostileSpec("print", "x"))
	t.Expect(err).To(gomega.HaveOccurred(), "a closed runtime runs on")
}
