package conformance

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/onsi/gomega"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

func concurrentRuns(t *T) {
	const many = 8
	var wg sync.WaitGroup
	failures := make([]string, many)
	for i := range many {
		word := fmt.Sprintf("run-%d", i)
		spec := t.HostileSpec("cat", "who")
		spec.StartTimeout *= many / 2 // each is as slow as there are others
		spec.Bundle.Entries = []wire.Entry{inline("who", wire.File, []byte(word))}
		wg.Go(func() {
			out, err := t.Run(spec)
			if err != nil || string(out.Stdout) != word {
				failures[i] = fmt.Sprintf("%s: %q, %v", word, out.Stdout, err)
			}
		})
	}
	wg.Wait()
	t.Expect(strings.Join(failures, "")).To(gomega.BeEmpty())
}

func freshEachTime(t *T) {
	name := "marker-" + t.s.token
	spec := t.HostileSpec("marker", name)
	t.Expect(t.HostileRun(spec).Achieved).To(gomega.BeFalse())
	// The very same request again: same label, same everything.
	t.Expect(t.HostileRun(spec).Achieved).To(gomega.BeFalse(), "the second run found what the first one left")
}

func sweepSparesRuns(t *T) {
	done := make(chan error, 1)
	spec := t.HostileSpec("hold", "held", "500ms")
	go func() {
		out, err := t.Run(spec)
		if err == nil && out.Status == nil {
			err = errors.New("the run in flight has no status")
		}
		done <- err
	}()
	t.s.eventually(t.s.running)
	for {
		_, err := t.s.runtime.Sweep(t.ctx, sandbox.SweepPolicy{Worker: spec.Label.Worker, OlderThan: time.Hour})
		t.Expect(err).NotTo(gomega.HaveOccurred())
		select {
		case err := <-done:
			t.Expect(err).NotTo(gomega.HaveOccurred(), "a run was swept away")
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func sweepOfNothing(t *T) {
	for range 2 {
		swept, err := t.s.runtime.Sweep(t.ctx, sandbox.SweepPolicy{Worker: "nobody-" + t.s.token, OlderThan: 100 * time.Hour})
		t.Expect(err).NotTo(gomega.HaveOccurred())
		t.Expect(swept.Removed).To(gomega.BeEmpty())
	}
}
