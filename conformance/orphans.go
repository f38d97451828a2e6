package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/onsi/gomega"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// orphanSpecs are about what killed workers leave.
func orphanSpecs() []Spec {
	o := func(id, title, why string, check func(*T), needs ...Capability) Spec {
		return Spec{ID: id, Group: Orphaned, Title: title, Why: why, Needs: append([]Capability{Sweep}, needs...), check: check}
	}
	return []Spec{
		o("O01", "a worker that is killed at any step leaves nothing that stays", "A worker can die at any moment of a run: what it leaves is swept by its successor, or goes by itself where instances die with their worker.", killedAtEveryStep, Worker),
		o("O02", "the run of a living worker is not swept by another", "Many workers share an engine and a bucket, and each sweeps: a run that somebody waits for is nobody's orphan.", livingNeighbour, Worker),
		o("O03", "another worker's young orphan stays", "Only its own worker can know that a young instance is an orphan; to all others it is a run.", youngForeign),
		o("O04", "an orphan that is old enough goes, whoever's it is", "A worker that never comes back must not leave its instances for good.", oldForeign),
		o("O05", "one's own orphans go at any age, and one's own run stays", "A worker that has come back knows that whatever carries its id and is no run of its own is an orphan.", ownOrphans),
		o("O06", "what was swept is swept once", "A second sweep finds nothing more: what the first one said to be removed is gone.", sweptOnce),
		o("O07", "what merely looks similar is nobody's orphan", "A sweep goes by what a runtime marked, and never by a name: whatever else is on the host is somebody's.", bystanders),
		o("O08", "keys are swept by the same two questions", "A key below the bundles' prefix belongs to a worker and has an age, like an instance; what is beside the prefix is not looked at.", sweptKeys, Storage),
	}
}

// workerID is a worker id of this session's.
func (t *T) workerID(word string) string { return word + "-" + t.s.token }

// label is a label of this spec's under a worker's id.
func (t *T) label(word string, attempt int) wire.Label {
	return wire.Label{Worker: t.workerID(word), Job: t.job(), Scanner: t.s.target.Scanner, Attempt: attempt}
}

// workerRun is a run of the hostile program in a worker of its own.
func (t *T) workerRun(word, verb string, args ...string) WorkerRun {
	t.s.workers++
	return WorkerRun{
		Label: t.label(word, t.s.workers), Argv: append([]string{t.Program("hostile"), verb}, args...),
		StartTimeout: t.s.options.Bounds.Start, Timeout: 2 * time.Minute,
	}
}

// worker is a worker process of the suite's.
type worker struct {
	cmd    *exec.Cmd
	stderr strings.Builder
	done   chan error
}

// startWorker starts a worker in a session of its own, so that killing it
// kills nothing else.
func (t *T) startWorker(run WorkerRun) *worker {
	cmd, err := t.s.target.Worker(t.s.setup, run)
	if err != nil {
		t.Broke("making a worker: %v", err)
	}
	w := &worker{cmd: cmd, done: make(chan error, 1)}
	cmd.Stderr = &w.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Broke("starting a worker: %v", err)
	}
	go func() { w.done <- cmd.Wait() }()
	return w
}

// kill kills the worker process alone and says whether it was still there.
func (w *worker) kill() (killed bool) {
	_ = w.cmd.Process.Kill()
	var exit *exec.ExitError
	err := <-w.done
	w.done <- err
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled()
}

// ended reports whether the worker has come to its own end.
func (w *worker) ended() bool {
	select {
	case err := <-w.done:
		w.done <- err
		return true
	default:
		return false
	}
}

// step is a moment at which a worker is killed.
type step struct {
	name string
	// verb and args are what the worker runs; the first argument is the mark by
	// which its processes are told from those of workers killed before.
	verb string
	args []string
	// reached waits for the moment, bounded; false says that it never came.
	reached func(w *worker, mark string) bool
}

// marked counts the processes of one worker's scanner.
func (s *Session) marked(mark string) int {
	n := 0
	for _, cmdline := range s.alive() {
		if strings.Contains(cmdline+" ", " "+mark+" ") {
			n++
		}
	}
	return n
}

// steps are the moments that can be told from outside, and a grid over the
// length of a run for those that can't. Of a sandbox with a kernel of its own
// nobody outside sees what its scanner does.
func (t *T) steps(length time.Duration) []step {
	patience := 2 * t.s.options.Bounds.Start
	atLeast := func(n int) func(*worker, string) bool {
		return func(w *worker, mark string) bool {
			return t.s.within(patience, func() bool { return t.s.marked(mark) >= n || w.ended() })
		}
	}
	gone := func(after time.Duration) func(*worker, string) bool {
		return func(w *worker, mark string) bool {
			if !atLeast(1)(w, mark) {
				return false
			}
			ok := t.s.within(patience, func() bool { return t.s.marked(mark) == 0 || w.ended() })
			<-time.After(after)
			return ok
		}
	}
	list := []step{
		{"the scanner runs", "daemon-and-hang", nil, atLeast(1)},
		{"the scanner has left daemons and hangs", "daemon-and-hang", nil, atLeast(4)},
		{"the scanner has just ended", "hold", []string{"200ms"}, gone(0)},
		{"the result is written", "hold", []string{"200ms"}, gone(length / 20)},
		{"the instance is removed", "hold", []string{"200ms"}, gone(length / 8)},
	}
	if t.s.target.Opaque {
		list = []step{{"the scanner hangs", "daemon-and-hang", nil, func(*worker, string) bool {
			<-time.After(2 * length)
			return t.s.running()
		}}}
	}
	const grid = 8
	for i := range grid {
		after := length * time.Duration(i) / grid
		list = append(list, step{fmt.Sprintf("%d%% of a run's length", 100*i/grid), "hold", []string{"20ms"}, func(*worker, string) bool {
			<-time.After(after)
			return true
		}})
	}
	return list
}

// within asks until the answer is yes or the time is over.
func (s *Session) within(wait time.Duration, ask func() bool) bool {
	end := time.After(wait)
	for !ask() {
		select {
		case <-end:
			return ask()
		case <-time.After(2 * time.Millisecond):
		}
	}
	return true
}

// fresh lists what is around and was not before.
func (t *T) fresh(before map[string]bool) []string {
	now, err := t.around()
	if err != nil {
		t.Broke("listing what is around: %v", err)
	}
	var list []string
	for thing := range now {
		if !before[thing] {
			list = append(list, thing)
		}
	}
	slices.Sort(list)
	return list
}

func killedAtEveryStep(t *T) {
	before, err := t.around()
	if err != nil {
		t.Broke("listing what is around: %v", err)
	}
	started := time.Now()
	first := t.startWorker(t.workerRun("killed", "hold", "held", "20ms"))
	t.s.within(2*t.s.options.Bounds.Start+t.s.options.Bounds.Run, first.ended)
	if killed := first.kill(); killed || first.cmd.ProcessState.ExitCode() != 0 {
		t.Fail("a worker that nobody kills has no answer: %s", first.stderr.String())
	}
	length := time.Since(started)
	union := map[string]int{}
	known := maps.Clone(before)
	kills := 0
	for i, s := range t.steps(length) {
		mark := fmt.Sprintf("step-%d", i)
		w := t.startWorker(t.workerRun("killed", s.verb, append([]string{mark}, s.args...)...))
		reached := s.reached(w, mark)
		running := t.s.marked(mark)
		killed := w.kill()
		left := t.fresh(known)
		t.noteKill(s, reached, killed, running, left, w)
		for _, line := range left {
			known[line] = true
		}
		if !killed {
			continue
		}
		kills++
		if running > 0 {
			union["process of the scanner "]++
		}
		for _, line := range left {
			kind, _, _ := strings.Cut(line, " ")
			union[kind+" "]++
		}
	}
	t.note("seen over all kills", fmt.Sprintf("a run takes %s; %d workers were killed before they ended; left of them: %v", length.Round(time.Millisecond), kills, union))
	t.Expect(kills).To(gomega.BeNumerically(">=", 5), "too few workers were killed in time to mean anything")
	t.sweepKilled(before, union)
}

func (t *T) noteKill(s step, reached, killed bool, running int, left []string, w *worker) {
	text := fmt.Sprintf("reached: %v; the worker was still there: %v; processes of the scanner as it was killed: %d; left right after:\n%s", reached, killed, running, strings.Join(left, "\n"))
	if w.stderr.Len() > 0 {
		text += "\nstderr: " + w.stderr.String()
	}
	t.note("killed: "+s.name, text)
}

// sweepKilled looks that all is gone: by itself where instances die with their
// worker, by sweeps of the worker's own id elsewhere.
func (t *T) sweepKilled(before map[string]bool, union map[string]int) {
	policy := sandbox.SweepPolicy{Worker: t.workerID("killed"), OlderThan: time.Hour}
	if t.s.target.Orphans.Instance == "" {
		t.Expect(union["process of the scanner "]).NotTo(gomega.BeZero(), "no worker was killed while its scanner ran: this proves nothing")
		t.s.eventually(func() bool { return len(t.fresh(before)) == 0 })
		t.Expect(t.fresh(before)).To(gomega.BeEmpty(), "something outlives its worker, and there is nobody to sweep it")
		swept, err := t.s.runtime.Sweep(t.ctx, policy)
		t.Expect(err).NotTo(gomega.HaveOccurred())
		t.Expect(swept.Removed).To(gomega.BeEmpty())
		return
	}
	t.Expect(union[t.s.target.Orphans.Instance]).NotTo(gomega.BeZero(), "no kill left an instance behind: this proves nothing")
	var removed []sandbox.Orphan
	sweeps := 0
	t.s.eventually(func() bool {
		swept, err := t.s.runtime.Sweep(t.ctx, policy)
		t.Expect(err).NotTo(gomega.HaveOccurred())
		removed = append(removed, swept.Removed...)
		sweeps++
		return len(t.fresh(before)) == 0
	})
	t.note("swept", fmt.Sprintf("%d sweeps removed %v", sweeps, removed))
	t.Expect(t.fresh(before)).To(gomega.BeEmpty(), "swept %d times, and still there", sweeps)
	t.Expect(removed).NotTo(gomega.BeEmpty())
	for _, o := range removed {
		t.Expect(o.Name).NotTo(gomega.BeEmpty())
		t.Expect(o.Worker).To(gomega.Equal(policy.Worker), "%s %s was removed as a killed worker's", o.Kind, o.Name)
	}
}

func livingNeighbour(t *T) {
	w := t.startWorker(t.workerRun("living", "hold", "held", "2s"))
	t.Cleanup(func() { w.kill() })
	started := t.s.within(2*t.s.options.Bounds.Start, func() bool { return t.s.running() || w.ended() })
	t.Expect(started && !w.ended()).To(gomega.BeTrue(), "the worker's run never showed: %s", w.stderr.String())
	sweeps := 0
	for !w.ended() {
		swept, err := t.s.runtime.Sweep(t.ctx, sandbox.SweepPolicy{Worker: t.s.setup.Worker, OlderThan: time.Minute})
		t.Expect(err).NotTo(gomega.HaveOccurred())
		t.Expect(swept.Removed).To(gomega.BeEmpty(), "a run that somebody waits for was swept")
		sweeps++
		t.pause(20 * time.Millisecond)
	}
	w.kill()
	t.note("the worker", fmt.Sprintf("%d sweeps while it ran; %s", sweeps, w.stderr.String()))
	t.Expect(w.cmd.ProcessState.ExitCode()).To(gomega.BeZero(), "the worker has no answer: %s", w.stderr.String())
}

// pause waits a little, or until the suite is ended.
func (t *T) pause(d time.Duration) {
	select {
	case <-t.ctx.Done():
		t.Broke("interrupted")
	case <-time.After(d):
	}
}

// plant leaves what a killed worker leaves, and takes it away in the end
// whatever the runtime made of it.
func (t *T) plant(label wire.Label, deadline time.Time) (lines []string) {
	if t.s.target.Orphans.Plant == nil {
		t.NotClaimed("the target leaves nothing that could be planted")
	}
	before, err := t.around()
	if err != nil {
		t.Broke("listing what is around: %v", err)
	}
	t.Cleanup(func() {
		_, err := t.s.runtime.Sweep(context.WithoutCancel(t.ctx), sandbox.SweepPolicy{Worker: label.Worker, OlderThan: 1000 * time.Hour})
		t.Expect(err).NotTo(gomega.HaveOccurred(), "sweeping what was planted")
	})
	if err := t.s.target.Orphans.Plant(t.ctx, t.s.setup, label, deadline); err != nil {
		t.Broke("planting an orphan: %v", err)
	}
	lines = t.fresh(before)
	t.note("planted under "+label.Worker, strings.Join(lines, "\n"))
	t.Expect(lines).NotTo(gomega.BeEmpty(), "an orphan was planted and is not to be seen: this proves nothing")
	return lines
}

// swept sweeps and keeps the report as evidence.
func (t *T) swept(policy sandbox.SweepPolicy) []sandbox.Orphan {
	found, err := t.s.runtime.Sweep(t.ctx, policy)
	t.note(fmt.Sprintf("sweep for %s, older than %s", policy.Worker, policy.OlderThan), fmt.Sprintf("%v", found.Removed))
	t.Expect(err).NotTo(gomega.HaveOccurred())
	return found.Removed
}

// still are those of the lines that are around.
func (t *T) still(lines []string) []string {
	now, err := t.around()
	if err != nil {
		t.Broke("listing what is around: %v", err)
	}
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !now[line] })
}

func youngForeign(t *T) {
	lines := t.plant(t.label("other", 1), time.Now().Add(time.Hour))
	removed := t.swept(sandbox.SweepPolicy{Worker: t.s.setup.Worker, OlderThan: time.Minute})
	t.Expect(removed).To(gomega.BeEmpty())
	t.Expect(t.still(lines)).To(gomega.Equal(lines), "another worker's young orphan was swept")
}

func oldForeign(t *T) {
	old := t.plant(t.label("gone", 1), time.Now().Add(-time.Hour))
	young := t.plant(t.label("other", 2), time.Now().Add(-time.Minute))
	removed := t.swept(sandbox.SweepPolicy{Worker: t.s.setup.Worker, OlderThan: 30 * time.Minute})
	t.Expect(t.still(old)).To(gomega.BeEmpty(), "an hour past its deadline, and not swept at half of that")
	t.Expect(t.still(young)).To(gomega.Equal(young), "a minute past its deadline, and swept at thirty")
	t.Expect(removed).NotTo(gomega.BeEmpty())
	for _, o := range removed {
		t.Expect(o.Worker).To(gomega.Equal(t.workerID("gone")), "%s %s", o.Kind, o.Name)
	}
}

func ownOrphans(t *T) {
	done := make(chan error, 1)
	spec := t.HostileSpec("hold", "held", "1500ms")
	go func() {
		out, err := t.Run(spec)
		if err == nil && out.Status == nil {
			err = errors.New("the run in flight has no status")
		}
		done <- err
	}()
	t.s.within(spec.StartTimeout, t.s.running)
	label := wire.Label{Worker: t.s.setup.Worker, Job: t.job(), Scanner: spec.Label.Scanner, Attempt: spec.Label.Attempt + 100_000}
	lines := t.plant(label, time.Now().Add(time.Hour))
	removed := t.swept(sandbox.SweepPolicy{Worker: t.s.setup.Worker, OlderThan: time.Hour})
	t.Expect(<-done).NotTo(gomega.HaveOccurred(), "the sweeping runtime's own run was swept")
	t.Expect(removed).NotTo(gomega.BeEmpty())
	t.Expect(t.still(lines)).To(gomega.BeEmpty(), "one's own orphan was not swept")
}

func sweptOnce(t *T) {
	lines := t.plant(t.label("killed", 1), time.Now().Add(time.Hour))
	policy := sandbox.SweepPolicy{Worker: t.workerID("killed"), OlderThan: time.Hour}
	t.Expect(t.swept(policy)).NotTo(gomega.BeEmpty())
	t.Expect(t.still(lines)).To(gomega.BeEmpty())
	t.Expect(t.swept(policy)).To(gomega.BeEmpty(), "what was swept is swept again")
}

func bystanders(t *T) {
	if t.s.target.Orphans.Bystanders == nil {
		t.NotClaimed("the target leaves nothing that anything could look like")
	}
	b, err := t.s.target.Orphans.Bystanders(t.ctx, t.s.setup)
	if err != nil {
		t.Broke("putting bystanders there: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Remove(); err != nil {
			t.Broke("taking bystanders away: %v", err)
		}
	})
	t.note("bystanders", strings.Join(b.Names, "\n"))
	// Old by any measure, and by whichever id a sweep asks.
	for _, id := range []string{t.s.setup.Worker, t.workerID("other")} {
		removed := t.swept(sandbox.SweepPolicy{Worker: id, OlderThan: time.Nanosecond})
		t.Expect(removed).To(gomega.BeEmpty())
	}
	missing, err := b.Missing()
	if err != nil {
		t.Broke("looking for bystanders: %v", err)
	}
	t.Expect(missing).To(gomega.BeEmpty(), "swept, and never anybody's orphan")
}
