package conformance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/onsi/gomega"

	"github.com/batleforc/batlehub-sandbox/conformance/internal/attempt"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

func contractSpecs() []Spec {
	c := func(id, title, why string, needs []Capability, check func(*T)) Spec {
		return Spec{ID: id, Group: Contract, Title: title, Why: why, Needs: needs, check: check}
	}
	results, timeouts, images := []Capability{Results}, []Capability{Timeouts}, []Capability{Results, Images}
	return []Spec{
		c("C01", "a run brings an answer back", "A run is one bundle, one argv and one fresh instance, and what the scanner printed and exited with comes back, for without it nothing else means anything.", results, aRunAnswers),
		c("C02", "every exit status is an answer", "A scanner's status says what it found, so each of them arrives as it is and none becomes an error.", results, statuses),
		c("C03", "a signal is no status", "A scanner that a signal killed has no status, and the signal is named, so that a crash is never read as a finding.", results, signals),
		c("C04", "stdout arrives byte for byte", "Findings are compared byte for byte between runtimes, so all 256 byte values arrive in order.", results, stdoutBytes),
		c("C05", "stdout up to the cap is whole", "The cap is what a caller may rely on: an output of exactly that size is an answer.", results, stdoutAtCap),
		c("C06", "stdout above the cap is an error and no answer", "A truncated list of findings would hide some, so one byte too many makes the run an error.", results, stdoutAboveCap),
		c("C07", "the end of stderr is kept", "The last lines say why a scanner failed; the rest is dropped, so that it costs nobody memory.", results, stderrTail),
		c("C08", "argv arrives as it was given", "No shell stands between the caller and the scanner, or an argument would be a way to run something else.", results, argvVerbatim),
		c("C09", "the environment is HOME and PATH", "A scanner's environment is always exactly HOME and PATH, so that nothing of the worker's leaks through it.", results, environmentIsTwo),
		c("C10", "inline files lie where the bundle says", "A scanner is given its inputs by path below its working directory, with exactly their bytes.", results, inlineFiles),
		c("C11", "the artifact arrives whole", "The bytes that are scanned are the bytes that were handed over.", results, artifactWhole),
		c("C12", "an artifact of another size is no answer", "A size that is not as declared means that something else than the artifact would be scanned.", results, artifactSizeLies),
		c("C13", "a missing command is told apart", "A room without its scanner is a fault of the deployment and must not look like the scanner's answer.", results, commandMissing),
		c("C14", "runs at once do not mix", "All methods are safe for concurrent use, so each of many runs gets its own answer.", results, concurrentRuns),
		c("C15", "nothing of a run is there in the next", "A run's instance and its files do not outlive it: no state can pass from one artifact to another.", results, freshEachTime),
		c("C16", "a scanner that hangs times out", "A scanner may hang, so the run ends by its timeout, as a timeout, and the whole process tree with it.", timeouts, hangTimesOut),
		c("C17", "a timeout ends daemons that ignore signals", "A process tree is killed whole, whatever its members do about signals and sessions.", timeouts, daemonsTimeOut),
		c("C18", "a cancelled run ends at once and leaves nothing", "A caller that gives up must not pay for what it no longer wants.", timeouts, cancelled),
		c("C19", "a context that has ended starts nothing", "A run that nobody waits for is not begun.", timeouts, cancelledBefore),
		c("C20", "Close ends the runs in flight", "A worker that goes down takes its sandboxes with it.", timeouts, closeEndsRuns),
		c("C21", "a request that contradicts itself is refused", "What no agent could follow is refused before anything is started, as the caller's mistake.", results, badRequests),
		c("C22", "an error is one line that says what and where", "Errors end in logs and on screens, where one line that names runtime, run and reason is what helps.", results, errorsAreLines),
		c("C23", "a scanner that closes stdout is waited for", "The end of the output is not the end of the scanner; its status is still to come.", results, closedStdout),
		c("C24", "a child that holds stdout does not hold the run", "The scanner's end is the end of the run, whatever its children keep open.", results, heldStdout),
		c("C25", "the result accounts for the run", "Bytes, times and memory are in the result, so that limits can be set by what is really used.", results, accounting),
		c("C26", "the name is constant", "The runtime's name is in configuration, metrics and errors and can't change under them.", results, constantName),
		c("C27", "a big argv and many entries arrive", "The caps of the wire format are what callers may use in full.", results, bigRequests),
		c("C28", "a sweep leaves runs in flight alone", "A sweep removes what dead workers left, and would otherwise be a way to kill living ones.", []Capability{Sweep}, sweepSparesRuns),
		c("C29", "a sweep of nothing removes nothing", "What a sweep removes has to be an orphan; on a clean host there is none, however often it is asked.", []Capability{Sweep}, sweepOfNothing),
		c("C30", "the network is there when asked for, or refused", "A run with network reaches out where that is claimed; where it is not claimed it is refused rather than run without.", results, networkOn),
		c("C31", "an image is used, or refused", "A request for an image that has no effect would run the scanner in another room than the caller thinks.", results, imageAsked),
		c("C32", "a probe is carried out, or says why not", "A runtime that can't prove its walls has to say so and never report success.", results, probeAsked),
		c("C33", "entries at reserved places are refused", "The names below the work directory that belong to the agent are no place for an input.", results, reservedEntries),
		c("C34", "threads work", "Scanners are ordinary programs, and current C libraries start threads through calls that a filter must refuse with care.", results, threadsWork),
		c("C35", "the values of personality that libc uses are allowed", "A flat refusal would break libc and Java without a wall being gained.", results, personalityWorks),
		c("C36", "a scanner that computes on is stopped by its CPU limit", "cpu_seconds is the scanner's RLIMIT_CPU on every runtime, and names its signal.", timeouts, cpuLimit),
		c("C38", "an image that is not there is refused", "A room that is missing is a fault of the deployment, told apart from everything that a scanner could do, and nothing else is run in its place.", images, imageMissing),
		c("C39", "another image is another room", "A run is opened from the image that it names and from no other.", images, imageChosen),
		c("C37", "an empty bundle is a run", "A scanner that only asks a service needs no artifact and gets none.", results, emptyBundle),
	}
}

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

func argvVerbatim(t *T) {
	args := []string{"", " ", "a b", "$HOME", "`id`", "*", "'", `"`, `\`, "ünï", "-x", "--", "a\nb", ";", "|cat", "\xff"}
	r := t.Hostile("environment", args...)
	// Bytes that are not UTF-8 can't be in the report's JSON as they are.
	want := slices.Clone(args)
	want[len(want)-1] = "\uFFFD"
	t.Expect(r.Values["argv"][2:]).To(gomega.Equal(want))
}

func environmentIsTwo(t *T) {
	r := t.Hostile("environment")
	var names []string
	for _, kv := range r.Values["environ"] {
		name, value, _ := strings.Cut(kv, "=")
		names = append(names, name)
		t.Expect(value).NotTo(gomega.BeEmpty(), "%s is empty", name)
	}
	t.Expect(names).To(gomega.ConsistOf("HOME", "PATH"))
	t.Expect(r.Values["environ"]).To(gomega.ContainElement("HOME="+r.Values["cwd"][0]), "HOME is the working directory")
}

func inlineFiles(t *T) {
	big := randomBytes(300_000)
	spec := t.HostileSpec("tree", ".")
	spec.Bundle.Entries = []wire.Entry{
		inline("a.txt", wire.File, []byte("a")), inline("deep/er/b.bin", wire.File, big),
		inline("empty", wire.File, nil), inline("ünï code", wire.File, []byte("u")),
	}
	nodes := map[string]attempt.Node{}
	for _, n := range t.HostileRun(spec).Nodes {
		nodes[n.Path] = n
	}
	for path, content := range map[string][]byte{"a.txt": []byte("a"), "deep/er/b.bin": big, "empty": nil, "ünï code": []byte("u")} {
		t.Expect(nodes[path].Type).To(gomega.Equal("file"), "%s", path)
		t.Expect(nodes[path].SHA256).To(gomega.Equal(digestOf(content)), "%s", path)
	}
	for path := range nodes {
		if isTemp(nodes[path]) {
			continue
		}
		t.Expect([]string{"a.txt", "deep", "deep/er", "deep/er/b.bin", "empty", "ünï code"}).To(gomega.ContainElement(path), "the work directory holds more than the inputs")
	}
}

func artifactWhole(t *T) {
	content := randomBytes(3<<20 + 17)
	spec := t.HostileSpec("tree", ".")
	spec.Bundle.Artifact = newBlob(content)
	spec.Bundle.Entries = []wire.Entry{artifactEntry("pkg/artifact.bin", wire.File, len(content))}
	nodes := t.HostileRun(spec).Nodes
	t.Expect(slices.ContainsFunc(nodes, func(n attempt.Node) bool {
		return n.Path == "pkg/artifact.bin" && n.SHA256 == digestOf(content)
	})).To(gomega.BeTrue(), "the artifact is not inside as it is outside")
}

func artifactSizeLies(t *T) {
	content := randomBytes(10_000)
	for _, claimed := range []int64{9_999, 10_001, 0} {
		spec := t.HostileSpec("print", "an answer")
		spec.Bundle.Artifact = blob{content, claimed}
		spec.Bundle.Entries = []wire.Entry{artifactEntry("artifact.bin", wire.File, int(claimed))}
		out, err := t.Run(spec)
		t.Expect(err).To(gomega.HaveOccurred(), "an artifact of 10000 bytes that claims %d was scanned: %q", claimed, out.Stdout)
	}
}

func commandMissing(t *T) {
	for _, command := range []string{"/usr/bin/no-such-scanner-" + t.s.token, "no-such-scanner-" + t.s.token} {
		_, err := t.Run(t.Spec(command, "x"))
		t.Expect(err).To(gomega.HaveOccurred())
		t.Expect(sandbox.CodeOf(err)).To(gomega.Equal(sandbox.CodeCommandMissing), "%v", err)
	}
}

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

func badRequests(t *T) {
	for name, change := range map[string]func(*sandbox.RunSpec){
		"no argv":             func(s *sandbox.RunSpec) { s.Argv = nil },
		"an empty command":    func(s *sandbox.RunSpec) { s.Argv = []string{""} },
		"a NUL byte in argv":  func(s *sandbox.RunSpec) { s.Argv = append(s.Argv, "a\x00b") },
		"a bad label":         func(s *sandbox.RunSpec) { s.Label.Job = "../../etc" },
		"no attempt":          func(s *sandbox.RunSpec) { s.Label.Attempt = 0 },
		"no timeout":          func(s *sandbox.RunSpec) { s.Timeout = 0 },
		"a negative limit":    func(s *sandbox.RunSpec) { s.Limits.MemoryMB = -5 },
		"no policy":           func(s *sandbox.RunSpec) { s.Bundle.Policy = wire.ExtractPolicy{} },
		"an artifact too few": func(s *sandbox.RunSpec) { s.Bundle.Entries = []wire.Entry{artifactEntry("x", wire.File, 3)} },
		"a size that is wrong": func(s *sandbox.RunSpec) {
			e := inline("x", wire.File, []byte("abc"))
			e.Size = 4
			s.Bundle.Entries = []wire.Entry{e}
		},
		"two at one place": func(s *sandbox.RunSpec) {
			s.Bundle.Entries = []wire.Entry{inline("x", wire.File, []byte("a")), inline("x", wire.File, []byte("b"))}
		},
	} {
		spec := t.HostileSpec("print", "x")
		change(&spec)
		_, err := t.Run(spec)
		t.Expect(err).To(gomega.HaveOccurred(), "%s was run", name)
		t.Expect(sandbox.KindOf(err)).To(gomega.Equal(sandbox.Refused), "%s: %v", name, err)
	}
}

func errorsAreLines(t *T) {
	spec := t.HostileSpec("hang")
	spec.Timeout = t.s.options.Bounds.Short
	_, err := t.Run(spec)
	var e *sandbox.Error
	t.Expect(errors.As(err, &e)).To(gomega.BeTrue(), "%T is no *sandbox.Error", err)
	t.Expect(err.Error()).NotTo(gomega.ContainSubstring("\n"))
	t.Expect(err.Error()).To(gomega.ContainSubstring(t.s.runtime.Name()))
	t.Expect(err.Error()).To(gomega.ContainSubstring(spec.Label.String()))
	t.Expect(len(err.Error())).To(gomega.BeNumerically("<", 1000))
}

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

func accounting(t *T) {
	out := t.Exited(t.HostileSpec("bytes", "100"))
	t.Expect(out.Result.StdoutBytes).To(gomega.Equal(int64(25_600)))
	t.Expect(out.Result.Usage.MaxRSSKiB).To(gomega.BeNumerically(">", 0))
	t.Expect(out.Result.Agent).NotTo(gomega.BeEmpty())
	t.Expect(out.Result.Phases.RunMS).To(gomega.BeNumerically("<", 10_000))
	t.Expect(out.Result.StderrTail).To(gomega.Equal(out.StderrTail))
}

func constantName(t *T) {
	name := t.s.runtime.Name()
	t.Expect(name).To(gomega.MatchRegexp(`^[a-z][a-z0-9-]*$`))
	t.Expect(t.s.runtime.Name()).To(gomega.Equal(name))
	t.Expect(t.s.target.Name).To(gomega.HavePrefix(name), "reports are filed under the runtime's name")
}

func bigRequests(t *T) {
	spec := t.HostileSpec("environment", strings.Repeat("x", 100<<10))
	for i := range wire.EntryCountCap {
		spec.Bundle.Entries = append(spec.Bundle.Entries, inline(fmt.Sprintf("d%d/f", i), wire.File, randomBytes(1000)))
	}
	r := t.HostileRun(spec)
	t.Expect(r.Values["argv"][2]).To(gomega.HaveLen(100 << 10))
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

func networkOn(t *T) {
	if t.s.plants.tcp == nil {
		t.NotRun("this host has no address but loopback to listen on")
	}
	spec := t.HostileSpec("connect-tcp", t.s.plants.tcp.Addr().String())
	spec.Network = true
	if !t.s.target.Claims(Network) {
		_, err := t.Run(spec)
		t.Expect(sandbox.KindOf(err)).To(gomega.Equal(sandbox.Refused), "a network that is not claimed was not refused: %v", err)
		t.NotClaimed("refused, as it must be: %v", err)
	}
	r := t.HostileRun(spec)
	t.Expect(r.Achieved).To(gomega.BeTrue(), "claimed, and %s did not answer (%s)", t.s.plants.tcp.Addr(), r.Errno)
}

func imageAsked(t *T) {
	spec := t.HostileSpec("print", "x")
	if t.s.target.Claims(Images) {
		t.Expect(spec.Image).NotTo(gomega.BeEmpty(), "images are claimed and the target names none")
		t.Exited(spec)
		return
	}
	spec.Image = "registry.invalid/no-such-image:latest"
	_, err := t.Run(spec)
	t.Expect(sandbox.KindOf(err)).To(gomega.Equal(sandbox.Refused), "an image that can't be used was not refused: %v", err)
	t.NotClaimed("refused, as it must be: %v", err)
}

func imageMissing(t *T) {
	for _, image := range []string{"localhost/no-such-image-" + t.s.token, "localhost/no-such-image@sha256:" + strings.Repeat("0", 64)} {
		spec := t.HostileSpec("print", "x")
		spec.Image = image
		out, err := t.Run(spec)
		t.Expect(err).To(gomega.HaveOccurred(), "%s is not there, and answered %q", image, out.Stdout)
		// A cluster asks the registry again until the start has to be given up.
		t.Expect(sandbox.KindOf(err)).To(gomega.BeElementOf(sandbox.Refused, sandbox.StartTimeout), "%v", err)
		t.Expect(sandbox.CodeOf(err)).To(gomega.Equal(sandbox.CodeImageMissing), "%v", err)
	}
}

func imageChosen(t *T) {
	if t.s.target.Another == nil {
		t.Broke("images are claimed, and the target makes no second one")
	}
	image, file, err := t.s.target.Another(t.ctx, t.s.setup)
	if err != nil {
		t.Broke("making another image: %v", err)
	}
	spec := t.HostileSpec("read-file", file.Path, file.Content)
	t.Expect(t.HostileRun(spec).Achieved).To(gomega.BeFalse(), "the one image has the other's file")
	spec = t.HostileSpec("read-file", file.Path, file.Content)
	spec.Image = image
	r := t.HostileRun(spec)
	t.Expect(r.Achieved).To(gomega.BeTrue(), "the other image was named, and its file is not there: %s", r.Errno)
}

func probeAsked(t *T) {
	if t.s.target.Claims(Probe) {
		report := t.probe(t.s.runtime, t.room())
		t.Expect(report.Skipped).To(gomega.BeEmpty())
		t.Expect(report.Verdicts).NotTo(gomega.BeEmpty())
		return
	}
	report, err := t.s.runtime.Probe(t.ctx, sandbox.Room{Scanner: t.s.target.Scanner})
	if err != nil {
		t.Expect(sandbox.KindOf(err)).To(gomega.Equal(sandbox.Refused), "%v", err)
		t.NotClaimed("refused, as it must be: %v", err)
	}
	t.Expect(report.Skipped).NotTo(gomega.BeEmpty(), "a probe that is not claimed reported %d verdicts", len(report.Verdicts))
	t.NotClaimed("skipped, as it must be: %s", report.Skipped)
}

func reservedEntries(t *T) {
	for _, name := range wire.Reserved {
		spec := t.HostileSpec("print", "x")
		spec.Bundle.Entries = []wire.Entry{inline(name, wire.File, []byte("x"))}
		_, err := t.Run(spec)
		t.Expect(sandbox.KindOf(err)).To(gomega.Equal(sandbox.Refused), "an entry at %q: %v", name, err)
	}
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

func emptyBundle(t *T) {
	r := t.Hostile("tree", ".")
	for _, n := range r.Nodes {
		t.Expect(isTemp(n)).To(gomega.BeTrue(), "the work directory of an empty bundle holds %s", n.Path)
	}
}

// isTemp says whether something of the work directory is the one for temporary
// files. A runtime may have empty directories in that.
func isTemp(n attempt.Node) bool {
	return n.Path == "tmp" || n.Type == "dir" && strings.HasPrefix(n.Path, "tmp/")
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// randomBytes are the same in every run of the suite, and compress to nothing.
func randomBytes(n int) []byte {
	source := rand.NewChaCha8([32]byte{1, 2, 3})
	b := make([]byte, n)
	_, _ = source.Read(b)
	return b
}
