package conformance

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/onsi/gomega"

	"github.com/batleforc/batlehub-sandbox/conformance/report"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// outcome ends a spec. It is panicked with, for gomega knows no other way out.
type outcome struct {
	verdict report.Verdict
	reason  string
}

// T is one spec being checked.
type T struct {
	gomega.Gomega
	ctx      context.Context
	s        *Session
	spec     Spec
	evidence []report.Evidence
	// accepted is how many had come to the planted listeners before the spec.
	accepted int64
	// deferred undo what the spec did, latest first, once evidence is taken.
	deferred []func()
}

// Check checks one spec and adds what became of it to the report.
func (s *Session) Check(ctx context.Context, spec Spec) report.Spec {
	started := time.Now()
	t := s.begin(ctx, spec)
	end := t.decide()
	result := t.result(end, time.Since(started))
	s.add(result)
	return result
}

func (s *Session) begin(ctx context.Context, spec Spec) *T {
	t := &T{ctx: ctx, s: s, spec: spec, evidence: []report.Evidence{}, accepted: s.plants.accepted.Load()}
	t.Gomega = gomega.NewGomega(func(message string, _ ...int) { panic(outcome{report.Fail, strings.TrimSpace(message)}) })
	return t
}

func (s *Session) add(result report.Spec) {
	s.report.Specs = append(s.report.Specs, result)
	if s.options.Log != nil {
		s.options.Log(result)
	}
}

// result is what became of the spec, as it is reported.
func (t *T) result(end outcome, took time.Duration) report.Spec {
	spec := t.spec
	result := report.Spec{
		ID: spec.ID, Group: string(spec.Group), Title: spec.Title, Why: spec.Why, Core: spec.Core(),
		Verdict: end.verdict, Reason: oneLine(end.reason), Evidence: t.evidence,
		Seconds: took.Seconds(), Expected: t.s.expected(spec),
	}
	switch result.Verdict {
	case report.Pass:
		result.Reason = ""
	case report.NotRun:
		result.Core = result.Core && !spec.HostMayLack
	case report.NotClaimed:
		// Doing without something that is not the core leaves the core whole.
		missing, _ := t.unclaimed()
		if _, ok := t.s.target.Without[spec.ID]; ok && missing == "" {
			break
		}
		result.Core = slices.Contains(Core(), missing)
	}
	return result
}

// expected is what the negative control asks of a spec.
func (s *Session) expected(spec Spec) report.Verdict {
	if !s.options.WithoutWalls {
		return ""
	}
	switch {
	case spec.Control == Either, spec.Control == BrokenAsRoot && os.Geteuid() != 0, spec.Scoped && scopes():
		return ""
	case spec.Control == Kept:
		return report.Pass
	}
	return report.Fail
}

func (t *T) decide() outcome {
	if end, ended := t.excused(); ended {
		return end
	}
	before, err := t.before()
	if err != nil {
		return outcome{report.Error, "listing what is around: " + err.Error()}
	}
	end := t.carryOut()
	left := t.leftovers(before)
	if t.s.seen = before; len(left) > 0 {
		t.s.seen = nil
	}
	if len(left) > 0 && end.verdict != report.Error {
		end = t.leaked(end, left)
	}
	return end
}

// excused ends a spec that is not even begun.
func (t *T) excused() (outcome, bool) {
	if missing, ok := t.unclaimed(); ok {
		return outcome{report.NotClaimed, fmt.Sprintf("%s does not claim %q", t.s.target.Name, missing)}, true
	}
	if reason, ok := t.s.target.Without[t.spec.ID]; ok {
		return outcome{report.NotClaimed, reason}, true
	}
	if t.s.opened != nil {
		return outcome{report.Fail, "the target can't be made: " + t.s.opened.Error()}, true
	}
	return outcome{}, false
}

// carryOut checks, closes the job and undoes what the spec did.
func (t *T) carryOut() outcome {
	end := t.protect(func() { t.spec.check(t) })
	for _, undo := range slices.Backward(append([]func(){t.closeJob}, t.deferred...)) {
		if undone := t.protect(undo); undone.verdict != report.Pass && end.verdict == report.Pass {
			end = undone
		}
	}
	return end
}

// closeJob says that the last run of the spec's job was made.
func (t *T) closeJob() {
	if c, ok := t.s.runtime.(sandbox.JobCloser); ok {
		err := c.CloseJob(context.WithoutCancel(t.ctx), t.s.setup.Worker, t.job())
		t.Expect(err).NotTo(gomega.HaveOccurred(), "closing the job")
	}
}

// leaked is the outcome of a spec after which something was left.
func (t *T) leaked(end outcome, left []string) outcome {
	t.note("left behind", strings.Join(left, "\n"))
	reason := fmt.Sprintf("left behind %s later: %s", t.s.options.Bounds.Settle, strings.Join(left, ", "))
	if end.verdict == report.Fail {
		reason = end.reason + "; also " + reason
	}
	return outcome{report.Fail, reason}
}

// unclaimed returns the first capability that the spec needs and the target
// does not claim. Walls are looked at all the same where the negative control
// is what is wanted.
func (t *T) unclaimed() (Capability, bool) {
	for _, c := range t.spec.Needs {
		if c == Walls && t.s.options.WithoutWalls {
			continue
		}
		if !t.s.target.Claims(c) {
			return c, true
		}
	}
	return "", false
}

// protect runs f and turns the ways it can end into an outcome.
func (t *T) protect(f func()) (end outcome) {
	end = outcome{verdict: report.Pass}
	defer func() {
		switch v := recover().(type) {
		case nil:
		case outcome:
			end = v
		default:
			t.note("the suite's own stack", string(debug.Stack()))
			end = outcome{report.Error, fmt.Sprintf("the suite broke: %v", v)}
		}
	}()
	f()
	return end
}

// Cleanup runs f once the spec has ended and its evidence is taken.
func (t *T) Cleanup(f func()) { t.deferred = append(t.deferred, f) }

// Fail ends the spec: what must hold does not.
func (t *T) Fail(format string, args ...any) {
	panic(outcome{report.Fail, fmt.Sprintf(format, args...)})
}

// NotRun ends the spec: this host lacks what it needs.
func (t *T) NotRun(format string, args ...any) {
	panic(outcome{report.NotRun, fmt.Sprintf(format, args...)})
}

// NotClaimed ends the spec: the target does without.
func (t *T) NotClaimed(format string, args ...any) {
	panic(outcome{report.NotClaimed, fmt.Sprintf(format, args...)})
}

// Broke ends the spec: the suite could not do its part.
func (t *T) Broke(format string, args ...any) {
	panic(outcome{report.Error, fmt.Sprintf(format, args...)})
}

func (t *T) note(what, text string) {
	t.evidence = append(t.evidence, report.Evidence{Run: what, Note: clip(text, 4000)})
}

// before is what is around as the spec begins. It is what the last spec left
// where that was nothing of its own: asking an engine costs time.
func (t *T) before() (map[string]bool, error) {
	if t.s.seen != nil {
		return t.s.seen, nil
	}
	return t.around()
}

// around lists what is on the host because of the target right now.
func (t *T) around() (map[string]bool, error) {
	list := map[string]bool{}
	if t.s.target.Left != nil {
		things, err := t.s.target.Left(t.s.setup)
		if err != nil {
			return nil, err
		}
		for _, thing := range things {
			list[thing] = true
		}
	}
	for _, process := range t.s.processes() {
		list[process] = true
	}
	return list, nil
}

// leftovers waits, bounded, until nothing is around that was not before.
func (t *T) leftovers(before map[string]bool) []string {
	var left []string
	t.s.eventually(func() bool {
		now, err := t.around()
		if err != nil {
			left = []string{err.Error()}
			return false
		}
		left = left[:0]
		for thing := range now {
			if !before[thing] {
				left = append(left, thing)
			}
		}
		slices.Sort(left)
		return len(left) == 0
	})
	return left
}

// eventually asks until the answer is yes or the bound is over.
func (s *Session) eventually(ask func() bool) bool {
	end := time.After(s.options.Bounds.Settle)
	for !ask() {
		select {
		case <-end:
			return ask()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return true
}

// alive finds the processes of this session's hostile program on the host,
// whatever namespace they are in, with their command lines. The stand-in for
// the worker is not one of them.
func (s *Session) alive() map[int]string {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	mark, standIn := s.named("hostile"), s.plants.pid()
	found := map[int]string{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || e.Name() == standIn {
			continue
		}
		cmdline, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		// Only what executes the program counts, and not who has its name
		// among other arguments.
		program, _, _ := strings.Cut(string(cmdline), "\x00")
		if err == nil && filepath.Base(program) == mark {
			found[pid] = strings.ReplaceAll(strings.TrimRight(string(cmdline), "\x00"), "\x00", " ")
		}
	}
	return found
}

// running says whether a run of this session's is to be seen: by its processes,
// or by its instance where the host has none of them.
func (s *Session) running() bool {
	if len(s.alive()) > 0 {
		return true
	}
	if !s.target.Opaque || s.target.Left == nil {
		return false
	}
	lines, err := s.target.Left(s.setup)
	return err == nil && slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, s.target.Orphans.Instance) })
}

// processes lists them for the eye.
func (s *Session) processes() []string {
	var list []string
	for pid, cmdline := range s.alive() {
		list = append(list, fmt.Sprintf("process %d: %s", pid, clip(cmdline, 200)))
	}
	slices.Sort(list)
	return list
}

func oneLine(s string) string { return clip(strings.Join(strings.Fields(s), " "), 1500) }

// clip keeps the beginning of s.
func clip(s string, most int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
