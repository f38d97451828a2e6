package heavy

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// The bounds of one run. The grace is what clean-up may take after them: a
// container, a network and the keys have their own, one after the other.
const (
	chaosStart   = 40 * time.Second
	chaosTimeout = 25 * time.Second
	chaosGrace   = 60 * time.Second
)

// number is an environment variable's value, or otherwise.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatalf("%s is %q, want a number", name, s)
	}
	return n
}

// While engines and storage are killed and come back, each run ends in a right
// answer or in an error that says what was gone, and after a sweep nothing is
// left. CHAOS_SEED repeats what was done when; CHAOS_RUNS is how many runs.
func TestRunsEndAndLeaveNothingWhileEnginesAndStorageAreKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("not run: -short")
	}
	total := number(t, "CHAOS_RUNS", 200)
	seed := number(t, "CHAOS_SEED", rand.Uint64N(1_000_000))
	t.Logf("CHAOS_SEED=%d CHAOS_RUNS=%d", seed, total)
	s := newScene(t)
	before := chaosCount(t)
	stages := s.stages(t)
	warmUp(t, s, stages)
	c := &chaos{t: t, scene: s, seed: seed, outcomes: map[string]int{}, first: map[string]string{}}
	begun := time.Now()
	indices := make(chan uint64)
	var pool sync.WaitGroup
	for range 2 {
		pool.Go(func() {
			for i := range indices {
				c.one(stages[i%uint64(len(stages))], i)
			}
		})
	}
	for i := range total {
		indices <- i
	}
	close(indices)
	pool.Wait()
	t.Logf("%d runs, two at a time, in %s\n%s", total, time.Since(begun).Round(time.Second), c.table())
	for _, g := range stages {
		if n, err := g.sweep(t.Context()); err != nil {
			t.Errorf("sweeping %s: %v", g, err)
		} else {
			t.Logf("the sweep of %s found %d things", g, n)
		}
	}
	for _, g := range stages {
		if err := g.end(); err != nil {
			t.Errorf("ending %s: %v", g, err)
		}
	}
	gone(t, "on the engines and the storage", func() []string { return s.leftOn(t) })
	gone(t, "of the processes", s.leftRunning)
	kills := int(c.daemonKills.Load())
	forgotten := s.forgotten(t)
	t.Logf("%d kills of the docker daemon left %d things that it has forgotten: %s", kills, len(forgotten), strings.Join(forgotten, ", "))
	if len(forgotten) > 3*kills {
		t.Error("that is more than the kills explain")
	}
	gone(t, "in this process", func() []string {
		if now := chaosCount(t); now.files > before.files || now.goroutines > before.goroutines {
			return []string{fmt.Sprintf("before %v, after %v", before, now)}
		}
		return nil
	})
}

// chaosCount counts what this process has open.
func chaosCount(t *testing.T) left {
	t.Helper()
	return left{files: entries(t, "/proc/self/fd"), goroutines: runtime.NumGoroutine()}
}

// gone waits, bounded, until nothing is left.
func gone(t *testing.T, where string, list func() []string) {
	t.Helper()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	found := list()
	for deadline := time.Now().Add(10 * time.Second); len(found) > 0 && time.Now().Before(deadline); found = list() {
		<-again.C
	}
	if len(found) > 0 {
		t.Errorf("left %s:\n%s", where, strings.Join(found, "\n"))
	}
}

// warmUp has each stage run once undisturbed: from then on every failure is
// somebody's deed.
func warmUp(t *testing.T, s *scene, stages []*stage) {
	t.Helper()
	for _, g := range stages {
		c := &chaos{t: t, scene: s, outcomes: map[string]int{}, first: map[string]string{}}
		if key, err := c.run(g, 1<<20, false); key != "answer" {
			t.Fatalf("%s does not work undisturbed: %v", g, err)
		}
	}
}

// chaos counts what runs came to.
type chaos struct {
	t     *testing.T
	scene *scene
	seed  uint64
	// daemonKills counts how often the docker daemon was killed.
	daemonKills atomic.Int32

	mu       sync.Mutex
	outcomes map[string]int
	first    map[string]string
}

func labelOf(g *stage, i uint64) wire.Label {
	return wire.Label{Worker: g.worker, Job: fmt.Sprintf("%s-%d", g.worker, i), Scanner: "inmate", Attempt: 1}
}

// one is one run and what is done to it.
func (c *chaos) one(g *stage, i uint64) {
	random := rand.New(rand.NewPCG(c.seed, i*0x9e3779b97f4a7c15)) // neighbours must not be alike
	deeds := g.deeds()
	d := deeds[random.IntN(len(deeds))]
	long := random.IntN(2) == 0
	ctx, over := context.WithCancel(context.Background())
	var doing sync.WaitGroup
	doing.Go(func() {
		did, err := c.scene.do(ctx, g, d, random)
		if err != nil && d == sweeping {
			c.count("sweep", g, d, err)
			err = c.clear(err)
		}
		if err != nil {
			c.t.Errorf("run %d of %s, %s: %v", i, g, d, err)
		}
		if !did {
			d = nothing // in time
		}
		if d == noDaemon {
			c.daemonKills.Add(1)
		}
	})
	outcome, err := c.run(g, i, long)
	over()
	doing.Wait()
	c.count(outcome, g, d, err)
}

// run is one run, and what it came to.
func (c *chaos) run(g *stage, i uint64, long bool) (outcome string, err error) {
	missing := i%5 == 3
	spec := chaosSpec(g, i, long, missing)
	begun := time.Now()
	out, err := g.Run(c.t.Context(), spec)
	took := time.Since(begun)
	if took > chaosStart+chaosTimeout+chaosGrace {
		c.t.Errorf("run %d of %s took %s: %v", i, g, took, err)
	}
	if closing := g.CloseJob(c.t.Context(), spec.Label.Worker, spec.Label.Job); closing != nil {
		c.count("close of the job", g, "", closing)
		if fault := c.clear(closing); fault != nil {
			c.t.Errorf("closing job %d of %s: %v", i, g, fault)
		}
	}
	if err != nil {
		if fault := c.clear(err); fault != nil {
			c.t.Errorf("run %d of %s: %v", i, g, fault)
		}
		e, _ := errors.AsType[*sandbox.Error](err)
		return fmt.Sprintf("%s/%s", e.Kind, e.Code), err
	}
	status, listing := 0, fmt.Sprintf("file \"%d\" ", i)
	if missing {
		status, listing = 1, ""
	}
	if out.Status == nil || *out.Status != status || !strings.HasPrefix(string(out.Stdout), listing) || missing && len(out.Stdout) > 0 {
		c.t.Errorf("run %d of %s: a wrong answer: %+v, %q", i, g, out.Result, out.Stdout)
	}
	return "answer", nil
}

// clear says what an error lacks to be clear.
func (c *chaos) clear(err error) error {
	e, is := errors.AsType[*sandbox.Error](err)
	text := err.Error()
	switch {
	case !is || e.Kind == "":
		return fmt.Errorf("no kind: %w", err)
	case !slices.Contains([]sandbox.Kind{sandbox.Crashed, sandbox.StartTimeout, sandbox.RunTimeout}, e.Kind):
		return fmt.Errorf("a %s of what can be repeated: %w", e.Kind, err)
	case e.Kind == sandbox.Crashed && e.Code == "":
		return fmt.Errorf("no code: %w", err)
	case e.Code == sandbox.CodeInternal && e.Detail == "":
		return fmt.Errorf("no detail: %w", err)
	case e.OOMKilled || e.Code == sandbox.CodeOOMKilled:
		return fmt.Errorf("nothing was out of memory: %w", err)
	case strings.Contains(text, "\n"):
		return fmt.Errorf("more than a line: %w", err)
	case strings.Contains(text, "X-Amz-Signature"):
		return errors.New("a presigned URL is in it")
	}
	return nil
}

// count writes down what a run came to, and the first error of each kind.
func (c *chaos) count(outcome string, g *stage, d deed, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := outcome
	if outcome == "sweep" || strings.HasPrefix(outcome, "close") {
		key = fmt.Sprintf("%s: %s/%s", outcome, sandbox.KindOf(err), sandbox.CodeOf(err))
	}
	c.outcomes[fmt.Sprintf("%-28s %-16s %s", key, g, d)]++
	c.outcomes[fmt.Sprintf("%-28s all", key)]++
	if example := fmt.Sprintf("%s, %s: %s", key, g.engine.Name, d); err != nil && c.first[example] == "" {
		c.first[example] = err.Error()
	}
}

func (c *chaos) table() string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(c.outcomes)) {
		fmt.Fprintf(&b, "%4d  %s\n", c.outcomes[key], key)
	}
	for _, key := range slices.Sorted(maps.Keys(c.first)) {
		fmt.Fprintf(&b, "%s:\n      %s\n", key, c.first[key])
	}
	return b.String()
}

// chaosSpec is a run over an archive of its own, so that no run's answer is
// right for another's.
func chaosSpec(g *stage, i uint64, long, missing bool) sandbox.RunSpec {
	dir, linger := "/work/artifact", "0s"
	if missing {
		dir = "/work/missing"
	}
	if long {
		linger = "400ms"
	}
	return sandbox.RunSpec{
		Bundle: sandbox.Bundle{
			Policy:   wire.DefaultExtractPolicy(),
			Entries:  []wire.Entry{{Path: wire.MustRelPath("artifact"), Kind: wire.Archive, URL: wire.ArtifactURL}},
			Artifact: bundle.BytesArtifact(oneFile(strconv.FormatUint(i, 10))),
		},
		Argv: []string{"inmate", "linger", linger, dir}, Limits: wire.DefaultLimits(), Label: labelOf(g, i),
		StartTimeout: chaosStart, Timeout: chaosTimeout,
	}
}

// oneFile is an archive of one file.
func oneFile(name string) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(name)), Mode: 0o644})
	if err == nil {
		_, err = w.Write([]byte(name))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		panic(err) // a buffer takes everything
	}
	return b.Bytes()
}
