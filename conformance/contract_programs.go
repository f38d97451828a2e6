package conformance

import (
	"time"

	"github.com/onsi/gomega"

	"github.com/batleforc/batlehub-sandbox/wire"
)

func closedStdout(t *T) {
	out := t.Exited(t.HostileSpec("close-stdout", "200ms"))
	t.Expect(*out.Status).To(gomega.Equal(5))
	t.Expect(string(out.Stdout)).To(gomega.Equal("before\n"))
}

func heldStdout(t *T) {
	started := time.Now()
	r := t.Hostile("stdout-holder", t.s.token)
	t.Expect(r.Achieved).To(gomega.BeTrue())
	t.Expect(time.Since(started)).To(gomega.BeNumerically("<", 20*time.Second), "the run waited for the scanner's child")
}

func threadsWork(t *T) {
	r := t.Hostile("threads")
	t.Expect(r.Achieved).To(gomega.BeTrue(), r.Detail)
}

func personalityWorks(t *T) {
	r := t.Hostile("docker-personality")
	t.Expect(r.Achieved).To(gomega.BeTrue(), "%v", r.Calls)
}

func cpuLimit(t *T) {
	spec := t.HostileSpec("burn-cpu", "20s")
	spec.Limits.CPUSeconds = 1
	out, err := t.Run(spec)
	t.Expect(err).NotTo(gomega.HaveOccurred())
	t.Expect(out.Result.Ending).To(gomega.Equal(wire.EndSignaled), "a scanner with one second of CPU ended otherwise")
	t.Expect([]string{"SIGXCPU", "SIGKILL"}).To(gomega.ContainElement(out.Result.Signal))
	// On an emulated machine the start counts as well, and what its host takes
	// from it; it is still less than the scanner asks for.
	most := min(4000*int64(t.s.options.Bounds.Run)/int64(DefaultBounds().Run), 16000)
	t.Expect(out.Result.Usage.UserMS + out.Result.Usage.SystemMS).To(gomega.BeNumerically("<", most))
}
