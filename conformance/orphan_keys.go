package conformance

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/onsi/gomega"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// key is where a run's manifest lies.
func (t *T) key(l wire.Label) string {
	return t.store().Prefix + l.Worker + "/" + l.Job + "/" + l.Scanner + "/" + strconv.Itoa(l.Attempt) + "/manifest.json"
}

// putKeys puts small objects there and takes them away in the end.
func (t *T) putKeys(keys ...string) {
	leaf := t.store().Backend
	for _, key := range keys {
		if err := leaf.Put(t.ctx, key, bytes.NewReader([]byte("{}")), 2); err != nil {
			t.Broke("planting a key: %v", err)
		}
		t.Cleanup(func() { _ = leaf.Delete(t.ctx, key) })
	}
}

// there are those of the keys that the backend has.
func (t *T) there(keys ...string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		_, err := t.store().Backend.Head(t.ctx, key)
		return err != nil
	})
}

// sweptKeys plants keys of this worker's and of another's, and what lies
// beside the prefix.
func sweptKeys(t *T) {
	own := t.key(wire.Label{Worker: t.s.setup.Worker, Job: t.job(), Scanner: "s", Attempt: 100_001})
	other, artifact := t.key(t.label("other", 1)), t.store().Prefix+t.workerID("other")+"/"+t.job()+"/artifact"
	beside := []string{"planted-" + t.s.token + "/" + own, "blob/" + digestOf([]byte(t.s.token)), "sandbox-" + t.s.token + "/x/y/z/1/manifest.json"}
	t.putKeys(append([]string{own, other, artifact}, beside...)...)
	removed := t.swept(sandbox.SweepPolicy{Worker: t.s.setup.Worker, OlderThan: time.Hour})
	t.Expect(t.there(own)).To(gomega.BeEmpty(), "one's own key was not swept")
	t.Expect(t.there(other, artifact)).To(gomega.Equal([]string{other, artifact}), "another worker's young key was swept")
	t.Expect(removed).NotTo(gomega.BeEmpty())
	// By the backend's own clock, which counts in seconds.
	sweeps := 0
	t.s.within(t.s.options.Bounds.Settle+10*time.Second, func() bool {
		_, err := t.s.runtime.Sweep(t.ctx, sandbox.SweepPolicy{Worker: t.s.setup.Worker, OlderThan: time.Second})
		t.Expect(err).NotTo(gomega.HaveOccurred())
		sweeps++
		if len(t.there(other, artifact)) == 0 {
			return true
		}
		t.pause(200 * time.Millisecond)
		return false
	})
	t.note("sweeps for what is older than a second", fmt.Sprint(sweeps))
	t.Expect(t.there(other, artifact)).To(gomega.BeEmpty(), "another worker's keys grew old and were not swept")
	t.Expect(t.there(beside...)).To(gomega.Equal(beside), "what lies beside the prefix was swept")
}
