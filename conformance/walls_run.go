package conformance

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/onsi/gomega"

	"github.com/batleforc/batlehub-sandbox/conformance/internal/attempt"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// runWalls are walls that take more than one attempt to look at: results that
// can't be forged, floods that end, neighbours that do not meet.
func runWalls() []Spec {
	w := func(id, title, why string, control Control, check func(*T)) Spec {
		return Spec{ID: id, Group: Walled, Title: title, Why: why, Needs: []Capability{Walls}, Control: control, check: check}
	}
	placed := "What stands where the result goes is removed and never opened, followed or believed."
	memory := w("W106", "the memory wall stands", "Where a wall around the sandbox's memory is claimed, the run that goes through it dies alone: it is told apart, and the next one is carried out.", Either, memoryWall)
	memory.Needs = append(memory.Needs, MemoryWall)
	fork := w("W107", "the process wall stands", "Where the number of processes is bounded, a fork bomb meets the bound.", Either, processWall)
	fork.Needs = append(fork.Needs, ProcessWall)
	dies := w("W112", "a sandbox dies with its worker", "A worker that is killed takes every process of its sandboxes with it, or scans would go on that nobody reads.", Either, diesWithWorker)
	dies.Needs = append(dies.Needs, Worker)
	return []Spec{
		w("W90", "a ready-made result is not believed", placed, Kept, forged("forge-before")),
		w("W91", "a racing result is not believed", "Whoever still runs when the scanner has ended is ended before the result is written, and the seal tells the agent's result from any other.", Kept, forged("forge-racing")),
		w("W92", "a FIFO at the result's place changes nothing", placed, Kept, forged("out-fifo")),
		w("W93", "a symbolic link at the result's place changes nothing", placed, Kept, forged("out-symlink")),
		w("W94", "a directory at the result's place changes nothing", placed, Kept, forged("out-directory")),
		w("W95", "a socket at the result's place changes nothing", placed, Kept, forged("out-socket")),
		w("W96", "no link leads the agent or the worker to a file of the host", "Who reads or writes the result follows no link that the scanner left.", Kept, linksToTheHost),
		w("W97", "a work directory without rights changes nothing", "A scanner owns its work directory and may close it; the result still comes and everything is removed.", Kept, forged("work-closed")),
		w("W98", "what a scanner piles up is removed", "Many, deep and closed files and directories are gone with the run.", Kept, pilesUp),
		w("W99", "a neighbour at work can't be seen", "No two runs, at once or one after the other, see a common file system.", Broken, neighbours),
		w("W100", "an earlier run left nothing anywhere", "A place that two runs share would let one artifact speak to the next scan.", Broken, nothingStays),
		w("W101", "a fork bomb ends with its run", "However many processes there are, all are gone when the run is over.", Kept, forkBomb),
		w("W102", "memory is bounded for each process", "A scanner that takes memory without end is refused it, and its neighbours keep theirs.", Kept, memoryHog),
		w("W103", "a disk flood is bounded for each file", "A file stops growing at its limit, and the scanner is told.", Kept, diskFlood),
		w("W104", "open files are bounded", "Descriptors are the whole machine's.", Kept, openFiles),
		w("W105", "daemons do not outlive their run", "A child in a session of its own that ignores every signal is ended with the run.", Kept, daemons),
		w("W109", "taking the agent's limits away forges nothing", "The agent has the scanner's uid, so its limits can be lowered: that may cost the answer, and never makes a false one.", Kept, lowered),
		memory, fork,
		w("W108", "an escaped program sees the same walls while others extract", "Nothing is different for a run beside a run.", Kept, besideOthers),
		dies,
	}
}

// forged runs a scanner that exits 7 after it has prepared the result's place:
// what it prepared must not be the answer.
func forged(verb string) func(*T) {
	return func(t *T) {
		spec := t.HostileSpec(verb, append([]string{"forged.tar", t.s.token}, exchangeDir(t)...)...)
		spec.Bundle.Entries = []wire.Entry{inline("forged.tar", wire.File, forgedResult(t))}
		out := t.Exited(spec)
		t.Expect(*out.Status).To(gomega.Equal(7), "the status is not what the scanner exited with")
		t.Expect(string(out.Stdout)).To(gomega.Equal("honest\n"), "the output is not what the scanner printed")
	}
}

// forgedResult is a well-formed result that says that all is clean, sealed
// with a key that is not the run's.
func forgedResult(t *T) []byte {
	clean := 0
	b, _, err := wire.EncodeResult(&wire.Result{
		Wire: wire.Version, Agent: "forged", Ending: wire.EndExited, Status: &clean, StdoutBytes: 5,
		Extraction: wire.Extraction{Notes: []wire.Note{}},
	}, []byte("clean"), wire.NewSealKey(), nil)
	if err != nil {
		t.Broke("forging a result: %v", err)
	}
	return b
}

func lowered(t *T) {
	out, err := t.Run(t.HostileSpec("lower-agent"))
	if err != nil {
		return
	}
	t.Expect(out.Status).To(gomega.HaveValue(gomega.Equal(7)))
	t.Expect(string(out.Stdout)).To(gomega.Equal("honest\n"))
}

func linksToTheHost(t *T) {
	victim := filepath.Join(filepath.Dir(t.s.setup.Dir), "victim")
	const content = "of the host, and not to be changed or read\n"
	if err := os.WriteFile(victim, []byte(content), 0o666); err != nil {
		t.Broke("planting a file: %v", err)
	}
	if err := os.Chmod(victim, 0o666); err != nil {
		t.Broke("planting a file: %v", err)
	}
	out := t.Exited(t.HostileSpec("out-host-link", append([]string{victim}, exchangeDir(t)...)...))
	t.Expect(*out.Status).To(gomega.Equal(7))
	t.Expect(string(out.Stdout)).To(gomega.Equal("honest\n"))
	after, err := os.ReadFile(victim)
	t.Expect(err).NotTo(gomega.HaveOccurred())
	t.Expect(string(after)).To(gomega.Equal(content), "a link led to a file of the host, which was changed")
}

func pilesUp(t *T) {
	r := t.Hostile("disk-many", "2000")
	t.Expect(r.Achieved).To(gomega.BeTrue(), "%s", r.Errno)
}

// neighbours runs a run that holds a file and one that looks for it, at once.
func neighbours(t *T) {
	name := "neighbour-" + t.s.token
	_, seeker := t.meet(false, []string{"hold", name}, 2500*time.Millisecond, []string{"find", name}, 1500*time.Millisecond)
	t.Expect(seeker.Achieved).To(gomega.BeFalse(), "%s", seeker.Detail)
}

// meet has two runs at once: one of them waits, and the other comes once that
// one is seen to be there. The clock that all processes share says whether they
// really met; where they did not, both stay longer in another try.
func (t *T) meet(network bool, waits []string, waiting time.Duration, comes []string, coming time.Duration) (waited, came attempt.Report) {
	for range 4 {
		var wg sync.WaitGroup
		var held sandbox.RunOutput
		var heldErr error
		first, second := t.HostileSpec(waits[0], append(waits[1:], waiting.String())...), t.HostileSpec(comes[0], append(comes[1:], coming.String())...)
		first.Network, second.Network = network, network
		wg.Go(func() { held, heldErr = t.Run(first) })
		t.s.within(waiting/2, t.s.running)
		came = t.HostileRun(second)
		wg.Wait()
		t.Expect(heldErr).NotTo(gomega.HaveOccurred())
		var err error
		waited, err = attempt.Parse(held.Stdout)
		t.Expect(err).NotTo(gomega.HaveOccurred(), "stderr %q", clip(held.StderrTail, 500))
		if came.Achieved || came.Until >= waited.From+int64(300*time.Millisecond) && came.From <= waited.Until {
			return waited, came
		}
		waiting, coming = 2*waiting, coming+coming/2
	}
	t.Broke("the two runs were not there at once: one from %d to %d, the other from %d to %d", waited.From, waited.Until, came.From, came.Until)
	return waited, came
}

func nothingStays(t *T) {
	name := "marker-everywhere-" + t.s.token
	t.Cleanup(func() {
		for _, dir := range []string{"/tmp", "/dev/shm", "/var/tmp", "/run"} {
			_ = os.Remove(filepath.Join(dir, name))
		}
	})
	t.Hostile("marker", name, "everywhere")
	second := t.Hostile("marker", name, "everywhere")
	t.Expect(second.Achieved).To(gomega.BeFalse(), "%s", second.Detail)
}

func forkBomb(t *T) {
	spec := t.HostileSpec("fork-bomb", "150")
	r := t.HostileRun(spec)
	t.Expect(r.Verb).To(gomega.Equal("fork-bomb")) // what is left is judged by what is left
}

func memoryHog(t *T) {
	spec := t.HostileSpec("memory", "1536")
	spec.Limits.AddressSpaceMB, spec.Limits.MemoryMB = 1024, 1024
	out, err := t.Run(spec)
	if err != nil {
		t.Expect(sandbox.CodeOf(err)).To(gomega.Equal(sandbox.CodeOOMKilled), "%v", err)
		return
	}
	if out.Status == nil {
		return // killed for it
	}
	r, err := attempt.Parse(out.Stdout)
	if err != nil {
		t.Expect(*out.Status).NotTo(gomega.BeZero(), "%v", err)
		return
	}
	t.Expect(r.Achieved).To(gomega.BeFalse(), "%s with a limit of 1024 MiB", r.Detail)
}

func diskFlood(t *T) {
	spec := t.HostileSpec("disk", "128")
	spec.Limits.FileMB = 64
	r := t.HostileRun(spec)
	t.Expect(r.Achieved).To(gomega.BeFalse(), "%s with a limit of 64 MiB", r.Detail)
	t.Expect([]string{"EFBIG", "ENOSPC", "EDQUOT"}).To(gomega.ContainElement(r.Errno))
}

func openFiles(t *T) {
	spec := t.HostileSpec("open-files", "500")
	spec.Limits.OpenFiles = 128
	r := t.HostileRun(spec)
	t.Expect(r.Achieved).To(gomega.BeFalse(), "%s with a limit of 128", r.Detail)
}

func daemons(t *T) {
	r := t.Hostile("daemon", t.s.token)
	t.Expect(r.Achieved).To(gomega.BeTrue(), "no daemon could be left: %s", r.Errno)
}

func memoryWall(t *T) {
	spec := t.HostileSpec("memory", "1024")
	spec.Limits.AddressSpaceMB, spec.Limits.MemoryMB = wire.AddressSpaceOff, 256
	spec.Bundle.Policy.MaxBytes = 64 << 20
	out, err := t.Run(spec)
	t.Expect(err).To(gomega.HaveOccurred(), "256 MiB were passed, and the run has an answer: %s %s", out.Result.Ending, out.Stdout)
	t.Expect(sandbox.KindOf(err)).To(gomega.Equal(sandbox.Crashed), "%v", err)
	t.Expect(sandbox.CodeOf(err)).To(gomega.Equal(sandbox.CodeOOMKilled), "%v", err)
	var e *sandbox.Error
	t.Expect(errors.As(err, &e) && e.OOMKilled).To(gomega.BeTrue(), "want of memory is not told apart: %v", err)
	t.Exited(t.HostileSpec("print", "the worker lives"))
}

func processWall(t *T) {
	// A runtime may bound all processes of the sandbox at 256 instead.
	spec := t.HostileSpec("fork-bomb", "400")
	spec.Limits.Processes = 64
	out, err := t.Run(spec)
	if t.s.target.Opaque && sandbox.KindOf(err) == sandbox.Crashed && strings.Contains(err.Error(), "limit of 64 processes was met") {
		return // a kernel of the sandbox's own needs threads too, and may end where there are no more
	}
	t.exited(spec, out, err)
	r := t.attempted(out)
	t.Expect(r.Achieved).To(gomega.BeFalse(), "%s with a limit of 64", r.Detail)
}

// besideOthers attempts while other runs unpack archives.
func besideOthers(t *T) {
	ctx, cancel := context.WithCancel(t.ctx)
	var wg sync.WaitGroup
	archive := tarGzOf(map[string]string{"package/index.js": strings.Repeat("x", 100_000)})
	for range 2 {
		wg.Go(func() {
			for ctx.Err() == nil {
				spec := t.HostileSpec("tree", ".")
				spec.Bundle.Entries = []wire.Entry{inline("pkg", wire.Archive, archive)}
				_, _ = t.s.runtime.Run(ctx, spec)
			}
		})
	}
	defer wg.Wait()
	defer cancel()
	for range 5 {
		r := t.Hostile("unshare-user")
		t.Expect(r.Achieved).To(gomega.BeFalse(), "%s", r.Detail)
	}
}

// diesWithWorker kills a worker that waits for a run, and looks.
func diesWithWorker(t *T) {
	if t.s.target.Orphans.Instance != "" {
		t.NotClaimed("an engine's instances outlive a worker until its deadline or a sweep ends them, which is what group O looks at")
	}
	cmd, err := t.s.target.Worker(t.s.setup, t.workerRun("killed", "daemon-and-hang", t.s.token))
	if err != nil {
		t.Broke("making a worker: %v", err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Broke("starting a worker: %v", err)
	}
	started := t.s.eventually(func() bool { return len(t.s.processes()) >= 2 })
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	t.note("the worker", stderr.String())
	t.Expect(started).To(gomega.BeTrue(), "the worker's run never showed: %s", stderr.String())
	// What is left is judged by what is left.
}
