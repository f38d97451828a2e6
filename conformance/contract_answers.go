package conformance

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/onsi/gomega"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

func aRunAnswers(t *T) {
	out := t.Exited(t.HostileSpec("print", "hello", "world"))
	t.Expect(*out.Status).To(gomega.Equal(0))
	t.Expect(string(out.Stdout)).To(gomega.Equal("hello\nworld\n"))
	t.Expect(out.StderrTail).To(gomega.ContainSubstring("hello"))
	t.Expect(out.Result.Ending).To(gomega.Equal(wire.EndExited))
	t.Expect(out.Result.Wire).To(gomega.Equal(wire.Version))
	t.Expect(out.Refused()).To(gomega.BeNil())
}

func statuses(t *T) {
	for _, status := range []int{0, 1, 2, 3, 42, 126, 127, 128, 137, 255} {
		out := t.Exited(t.HostileSpec("exit", strconv.Itoa(status)))
		t.Expect(*out.Status).To(gomega.Equal(status))
	}
}

func signals(t *T) {
	for number, name := range map[int]string{9: "SIGKILL", 1: "SIGHUP", 15: "SIGTERM"} {
		out, err := t.Run(t.HostileSpec("kill-self", strconv.Itoa(number)))
		t.Expect(err).NotTo(gomega.HaveOccurred())
		t.Expect(out.Status).To(gomega.BeNil(), "a scanner killed by %s has no status", name)
		t.Expect(out.Result.Ending).To(gomega.Equal(wire.EndSignaled))
		t.Expect(out.Result.Signal).To(gomega.Equal(name))
	}
}

func stdoutBytes(t *T) {
	const times = 4096
	out := t.Exited(t.HostileSpec("bytes", strconv.Itoa(times)))
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	t.Expect(bytes.Equal(out.Stdout, bytes.Repeat(all, times))).To(gomega.BeTrue(), "1 MiB of all byte values came back as %d other bytes", len(out.Stdout))
}

func stdoutAtCap(t *T) {
	out := t.Exited(t.HostileSpec("stdout", strconv.Itoa(wire.StdoutCap)))
	t.Expect(out.Stdout).To(gomega.HaveLen(wire.StdoutCap))
	t.Expect(out.Result.StdoutBytes).To(gomega.Equal(int64(wire.StdoutCap)))
}

func stdoutAboveCap(t *T) {
	for _, size := range []int{wire.StdoutCap + 1, 4 * wire.StdoutCap} {
		out, err := t.Run(t.HostileSpec("stdout", strconv.Itoa(size)))
		t.Expect(err).To(gomega.HaveOccurred(), "%d bytes of stdout came back as an answer with %d", size, len(out.Stdout))
		t.Expect(sandbox.CodeOf(err)).To(gomega.Equal(sandbox.CodeStdoutCap), "%v", err)
		t.Expect(out.Stdout).To(gomega.BeEmpty(), "an error came with output")
	}
}

func stderrTail(t *T) {
	out := t.Exited(t.HostileSpec("stderr", strconv.Itoa(4<<20)))
	t.Expect(strings.TrimSpace(out.StderrTail)).To(gomega.HaveSuffix("the last words"))
	t.Expect(len(out.StderrTail)).To(gomega.BeNumerically("<=", wire.StderrTailCap))
	t.Expect(len(out.StderrTail)).To(gomega.BeNumerically(">", wire.StderrTailCap/2))
	t.Expect(out.Result.StderrBytes).To(gomega.BeNumerically(">=", 4<<20))
}

func accounting(t *T) {
	out := t.Exited(t.HostileSpec("bytes", "100"))
	t.Expect(out.Result.StdoutBytes).To(gomega.Equal(int64(25_600)))
	t.Expect(out.Result.Usage.MaxRSSKiB).To(gomega.BeNumerically(">", 0))
	t.Expect(out.Result.Agent).NotTo(gomega.BeEmpty())
	t.Expect(out.Result.Phases.RunMS).To(gomega.BeNumerically("<", 10_000))
	t.Expect(out.Result.StderrTail).To(gomega.Equal(out.StderrTail))
}
