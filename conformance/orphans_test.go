package conformance_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/conformance/report"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox/sandboxtest"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// yard is a fake engine's instances: whose each is, and until when.
type yard struct {
	mu        sync.Mutex
	instances map[string]instance
}

type instance struct {
	worker   string
	deadline time.Time
}

// lines are the instances as a target lists them.
func (y *yard) lines(conformance.Setup) ([]string, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	var list []string
	for name := range y.instances {
		list = append(list, "box "+name)
	}
	return list, nil
}

func (y *yard) plant(_ context.Context, _ conformance.Setup, l wire.Label, deadline time.Time) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.instances[l.Worker+"/"+l.String()] = instance{l.Worker, deadline}
	return nil
}

// bystanders are one more instance, without a worker.
func (y *yard) bystanders(context.Context, conformance.Setup) (conformance.Bystanders, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.instances["looks similar"] = instance{deadline: time.Now().Add(-time.Hour)}
	return conformance.Bystanders{
		Names: []string{"looks similar"},
		Missing: func() ([]string, error) {
			y.mu.Lock()
			defer y.mu.Unlock()
			if _, there := y.instances["looks similar"]; there {
				return nil, nil
			}
			return []string{"looks similar"}, nil
		},
		Remove: func() error {
			y.mu.Lock()
			defer y.mu.Unlock()
			delete(y.instances, "looks similar")
			return nil
		},
	}, nil
}

// target is one over the yard, whose sweeps take what takes says.
func (y *yard) target(takes func(instance, sandbox.SweepPolicy) bool) *conformance.Target {
	target := fake(func(context.Context, sandbox.RunSpec) (sandbox.RunOutput, error) {
		return sandboxtest.Exited(0, []byte(`{"verb":"hold","achieved":true}`)), nil
	})
	target.Left = y.lines
	target.Orphans = conformance.Orphans{Instance: "box ", Plant: y.plant, Bystanders: y.bystanders}
	inner := target.New
	target.New = func(ctx context.Context, s conformance.Setup) (sandbox.Runtime, error) {
		r, err := inner(ctx, s)
		r.(*sandboxtest.Runtime).OnSweep = func(_ context.Context, policy sandbox.SweepPolicy) (sandbox.SweepReport, error) {
			y.mu.Lock()
			defer y.mu.Unlock()
			var swept sandbox.SweepReport
			for name, i := range y.instances {
				if takes(i, policy) {
					swept.Removed = append(swept.Removed, sandbox.Orphan{Kind: "box", Name: name, Worker: i.worker})
					delete(y.instances, name)
				}
			}
			return swept, nil
		}
		return r, err
	}
	return target
}

// rightly is what a sweep takes.
func rightly(i instance, p sandbox.SweepPolicy) bool {
	if i.worker == "" {
		return false
	}
	return i.worker == p.Worker || time.Since(i.deadline) > p.OlderThan
}

var orphanIDs = []string{"O03", "O04", "O05", "O06", "O07"}

func TestASweepByTheTwoQuestionsPasses(t *testing.T) {
	y := &yard{instances: map[string]instance{}}
	_, specs := check(t, y.target(rightly), options(t, orphanIDs...))
	for id, s := range specs {
		if s.Verdict != report.Pass {
			t.Errorf("%s is %s: %s", id, s.Verdict, s.Reason)
		}
	}
	if len(y.instances) > 0 || len(specs) != len(orphanIDs) {
		t.Errorf("%d specs left %v", len(specs), y.instances)
	}
}

func TestEveryWrongSweepIsSeen(t *testing.T) {
	for name, c := range map[string]struct {
		takes func(instance, sandbox.SweepPolicy) bool
		fails []string
	}{
		"everything of every worker": {func(i instance, _ sandbox.SweepPolicy) bool { return i.worker != "" }, []string{"O03", "O04"}},
		"whatever looks similar":     {func(i instance, p sandbox.SweepPolicy) bool { return i.worker == "" || rightly(i, p) }, []string{"O07"}},
		"its own alone":              {func(i instance, p sandbox.SweepPolicy) bool { return i.worker == p.Worker }, []string{"O04"}},
	} {
		y := &yard{instances: map[string]instance{}}
		_, specs := check(t, y.target(c.takes), options(t, orphanIDs...))
		var failed []string
		for id, s := range specs {
			if s.Verdict == report.Fail {
				failed = append(failed, id)
			}
		}
		slices.Sort(failed)
		if !slices.Equal(failed, c.fails) {
			t.Errorf("%s: %v fail, want %v", name, failed, c.fails)
		}
	}
}

func TestAWorkerThatIsNotClaimedLeavesItsSpecsNotClaimed(t *testing.T) {
	y := &yard{instances: map[string]instance{}}
	r, specs := check(t, y.target(rightly), options(t, "O01", "O02", "O06", "O08"))
	for _, id := range []string{"O01", "O02", "O08"} {
		if specs[id].Verdict != report.NotClaimed {
			t.Errorf("%s is %s: %s", id, specs[id].Verdict, specs[id].Reason)
		}
	}
	if r.Verdict != report.Pass {
		t.Errorf("the verdict is %s", r.Verdict)
	}
}

// Specs of one archive each may run at once; what they leave is found all the
// same, and is whose it is.
func TestSpecsAtOnceAreBlamedForWhatTheyLeft(t *testing.T) {
	var mu sync.Mutex
	var left []string
	target := fake(func(_ context.Context, spec sandbox.RunSpec) (sandbox.RunOutput, error) {
		if strings.HasPrefix(spec.Label.Job, "e13-") {
			mu.Lock()
			defer mu.Unlock()
			left = append(left, fmt.Sprintf("box %s", spec.Label))
		}
		return sandboxtest.Exited(0, []byte("{}")), nil
	})
	target.Left = func(conformance.Setup) ([]string, error) {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(left), nil
	}
	o := options(t, "C26", "E12", "E13", "E14", "P01")
	o.Parallel = 3
	r, specs := check(t, target, o)
	for id, s := range specs {
		if blamed := strings.Contains(s.Reason, "left behind"); blamed != (id == "E13") {
			t.Errorf("%s is %s: %s", id, s.Verdict, s.Reason)
		}
	}
	var order []string
	for _, s := range r.Specs {
		order = append(order, s.ID)
	}
	if want := []string{"C26", "E12", "E13", "E14", "P01"}; !slices.Equal(order, want) {
		t.Errorf("reported as %v", order)
	}
}

// closer is a runtime that keeps something for each job.
type closer struct {
	sandbox.Runtime
	mu   sync.Mutex
	jobs []string
}

func (c *closer) CloseJob(_ context.Context, worker, job string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs = append(c.jobs, worker+" "+job)
	return nil
}

func TestEachSpecsJobIsClosedOnce(t *testing.T) {
	var runtime *closer
	var setup conformance.Setup
	target := fake(nil)
	inner := target.New
	target.New = func(ctx context.Context, s conformance.Setup) (sandbox.Runtime, error) {
		r, err := inner(ctx, s)
		runtime, setup = &closer{Runtime: r}, s
		return runtime, err
	}
	check(t, target, options(t, "C26", "C29"))
	want := []string{setup.Worker + " c26-" + setup.Token, setup.Worker + " c29-" + setup.Token}
	if !slices.Equal(runtime.jobs, want) {
		t.Errorf("closed %q, want %q", runtime.jobs, want)
	}
}
