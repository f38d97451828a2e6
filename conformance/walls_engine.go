package conformance

import (
	"strconv"
	"sync"
	"time"

	"github.com/onsi/gomega"

	"github.com/batleforc/batlehub-sandbox/conformance/internal/attempt"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// engineWalls are kept by runtimes that have an engine below them, or a
// network of their own for each run.
func engineWalls() []Spec {
	w := func(id, title, why string, control Control, check func(*T), needs ...Capability) Spec {
		return Spec{ID: id, Group: Walled, Title: title, Why: why, Needs: append([]Capability{Walls}, needs...), Control: control, check: check}
	}
	return []Spec{
		w("W84", "two runs at once do not meet over a network", "Whatever network a run needs for its transport, no other run is on it.", Broken, strangers),
		w("W110", "the engine's filter lies below the agent's", "The engine's own profile is on when the agent adds its filter, so that neither has to be believed alone.", Kept, twoFilters, Images),
		w("W111", "the exchange directory is closed to the scanner", "Bundle and result pass through a directory of the agent's uid: what is in there is nothing of the scanner's, although it has that uid too.", Kept, exchangeClosed),
		w("W113", "the work directory is full at its size", "The work directory is memory of the sandbox's, so that it ends where the policy says and the scanner is told so.", Kept, workFull, WorkWall),
	}
}

// strangers has a run that listens and one that looks for it on every network
// that it is on, at once.
func strangers(t *T) {
	port := t.port()
	var wg sync.WaitGroup
	var held sandbox.RunOutput
	var heldErr error
	holder := t.HostileSpec("listen-for", port, "4s")
	wg.Go(func() { held, heldErr = t.Run(holder) })
	seeker := t.Hostile("seek-net", port, "2500ms")
	wg.Wait()
	t.Expect(heldErr).NotTo(gomega.HaveOccurred())
	holding, err := attempt.Parse(held.Stdout)
	t.Expect(err).NotTo(gomega.HaveOccurred())
	t.Expect(seeker.Achieved).To(gomega.BeFalse(), "%s", seeker.Detail)
	t.Expect(holding.Achieved).To(gomega.BeFalse(), "%s", holding.Detail)
	if seeker.Until < holding.From+int64(300*time.Millisecond) || seeker.From > holding.Until {
		t.Broke("the two runs were not there at once: one from %d to %d, the other from %d to %d", holding.From, holding.Until, seeker.From, seeker.Until)
	}
}

func twoFilters(t *T) {
	r := t.Hostile("status")
	filters, err := strconv.Atoi(one(r.Values["Seccomp_filters"]))
	t.Expect(err).NotTo(gomega.HaveOccurred(), "Seccomp_filters is %v", r.Values["Seccomp_filters"])
	t.Expect(filters).To(gomega.BeNumerically(">=", 2), "the agent's filter is alone: the engine has none, or was told to have none")
}

func exchangeClosed(t *T) {
	if t.s.target.Exchange == "" {
		t.NotClaimed("nothing passes through a directory of its own")
	}
	r := t.Hostile("exchange", t.s.target.Exchange)
	if version, err := strconv.Atoi(one(r.Values["landlock"])); err == nil && r.Achieved && version < 2 {
		t.NotRun("the kernel has no Landlock that closes directories (its version is %d, and it takes 2: Linux 5.19): %s", version, r.Detail)
	}
	t.Expect(r.Calls).NotTo(gomega.BeEmpty())
	t.Expect(r.Achieved).To(gomega.BeFalse(), "%s", r.Detail)
}

func workFull(t *T) {
	const size = 64
	spec := t.HostileSpec("disk-fill", strconv.Itoa(2*size))
	spec.Bundle.Policy.MaxBytes, spec.Bundle.Policy.MaxFileBytes = size<<20, size<<20
	r := t.HostileRun(spec)
	t.Expect(r.Achieved).To(gomega.BeFalse(), "%s into a work directory of %d MiB", r.Detail, size)
	t.Expect(r.Errno).To(gomega.Equal("ENOSPC"), "%s", r.Detail)
	written, err := strconv.Atoi(one(r.Values["MiB"]))
	t.Expect(err).NotTo(gomega.HaveOccurred())
	t.Expect(written).To(gomega.BeNumerically(">=", size-8), "the work directory is smaller than the policy says")
}
