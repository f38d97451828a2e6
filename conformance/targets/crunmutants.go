package targets

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// crunMutants are runtimes over a program with one wall broken each, and the
// spec that must see it: one for each line of config.json that is a wall, and
// faults of the runtime itself. What the agent keeps is broken by bwrap's
// mutants.
func crunMutants(b *crunBase) []conformance.Mutant {
	config := func(name, killer string, edits ...configEdit) conformance.Mutant {
		return b.mutant(name, killer, crunBreakage{config: edits})
	}
	// The agent's own gate would see an open network before any spec does.
	network := b.hostNetwork()
	network.agent = noGate
	list := []conformance.Mutant{
		b.mutant("the network is the host's", "W70", network),
		config("the root is mounted read-write", "W54", crunRootWritable),
		config("the work directory has no size", "W113", crunWorkSize),
		// The result's place has its flags from its mount on the host as well.
		config("the inputs are bound without their flags", "W116", mountOptions("/bundle", "rbind", "rw")),
		config("the agent is given a variable of the worker's", "P01", crunVariable),
		config("capabilities can be had", "W50", crunCapabilities...),
		config("inside one is root", "W51", crunAsRoot...),
		b.mutant("memory has no bound", "W106", crunNoMemory),
		b.mutant("processes have no bound", "W107", crunNoPIDs),
		b.sharing("the host's programs are in the room", "W63", "usr/sbin", func(conformance.Setup) string { return "/usr/sbin" }),
		b.sharing("a directory of the host's is in the room", "W59", "oldroot", func(s conformance.Setup) string { return filepath.Dir(s.Dir) }),
		b.sharing("two runs share a directory", "W100", "var/tmp", openDirectory),
		b.wrapped("a sweep takes the young of other workers", "O03", func(s conformance.Setup, r sandbox.Runtime) sandbox.Runtime {
			return &sweepsYoung{faulty{r}, b.bundles(s)}
		}),
		b.wrapped("a sweep goes by the name", "O07", func(s conformance.Setup, r sandbox.Runtime) sandbox.Runtime {
			return &sweepsNames{faulty{r}, b.containers(s)}
		}),
		b.wrapped("a sweep takes nothing that is old", "O04", func(_ conformance.Setup, r sandbox.Runtime) sandbox.Runtime { return &forgetful{faulty{r}} }),
		b.wrapped("an error of the runtime is an answer", "C13", func(_ conformance.Setup, r sandbox.Runtime) sandbox.Runtime { return &optimist{faulty{r}} }),
		b.wrapped("a network that can't be had is left out in silence", "C30", func(_ conformance.Setup, r sandbox.Runtime) sandbox.Runtime { return &networkless{faulty{r}} }),
		b.wrapped("an image that can't be used is left out in silence", "C31", func(_ conformance.Setup, r sandbox.Runtime) sandbox.Runtime { return &imageless{faulty{r}} }),
	}
	if b.onGVisor() {
		// The rest are of the host's kernel, which a scanner does not see there, or
		// of walls that are not claimed there.
		return list
	}
	return append(list,
		config("the work directory takes set-id programs and devices", "W55", crunWorkFlags),
		config("the IPC namespace is the host's", "W62", crunHostIPC),
		config("the host name is the host's", "W65", crunHostName...),
		config("paths of the kernel's are not masked", "W115", crunNoMask),
		b.mutant("the agent leaves the result's place open", "W111", crunBreakage{breakage: breakage{agent: noScope}}),
		b.sharing("a second place is writable", "W53", "var/tmp", openDirectory),
		config("the pid namespace is the host's", "W60", crunHostPIDs...),
		config("there is no user namespace", "W114", crunHostUsers...),
		config("the program lets privileges be gained", "W110", crunNoNewPrivs),
		config("the program has no filter", "W110", crunUnconfined),
	)
}

// openDirectory is a directory of a session's that everybody may write.
func openDirectory(s conformance.Setup) string {
	dir := filepath.Join(s.Dir, "shared")
	_ = os.MkdirAll(dir, 0o777)
	_ = os.Chmod(dir, 0o777)
	return dir
}

// placed is a room with one more directory, for something to be mounted on.
func placed(dir string) breakage {
	return breakage{files: map[string]string{filepath.Join(dir, "place"): ""}}
}

func (b *crunBase) mutant(name, killer string, broken crunBreakage) conformance.Mutant {
	b.builder.variant(broken.agent)
	return conformance.Mutant{Name: name, Killer: killer, Make: func(context.Context) (*conformance.Target, error) {
		return b.target(broken), nil
	}}
}

// sharing is a target whose runs see a directory of the host's at a place, or
// at the same path below it where that is what is looked for.
func (b *crunBase) sharing(name, killer, place string, of func(conformance.Setup) string) conformance.Mutant {
	return b.mutant(name, killer, crunBreakage{inSession: func(s conformance.Setup, broken crunBreakage) crunBreakage {
		from, to := of(s), place
		if place == "oldroot" {
			to = filepath.Join(place, from)
		}
		broken.breakage = placed(to)
		broken.config = []configEdit{addMount("bind", from, "/"+to, "rbind", "rw")}
		return broken
	}})
}

// wrapped is a target whose runtime has a fault in between.
func (b *crunBase) wrapped(name, killer string, wrap func(conformance.Setup, sandbox.Runtime) sandbox.Runtime) conformance.Mutant {
	return conformance.Mutant{Name: name, Killer: killer, Make: func(context.Context) (*conformance.Target, error) {
		t := b.target(crunBreakage{})
		inner := t.New
		t.New = func(ctx context.Context, s conformance.Setup) (sandbox.Runtime, error) {
			r, err := inner(ctx, s)
			if err != nil {
				return nil, err
			}
			return wrap(s, r), nil
		}
		return t, nil
	}}
}

// sweepsYoung takes every run directory for its own worker's.
type sweepsYoung struct {
	faulty
	bundles string
}

// Sweep implements sandbox.Runtime.
func (y *sweepsYoung) Sweep(ctx context.Context, policy sandbox.SweepPolicy) (sandbox.SweepReport, error) {
	report, err := y.Runtime.Sweep(ctx, policy)
	names, err2 := namesIn(y.bundles)
	err = errors.Join(err, err2)
	var workers []string
	for _, name := range names {
		if parts := strings.Split(name, "~"); len(parts) == 6 && !slices.Contains(workers, parts[1]) {
			workers = append(workers, parts[1])
		}
	}
	for _, worker := range workers {
		policy.Worker = worker
		_, swept := y.Runtime.Sweep(ctx, policy)
		err = errors.Join(err, swept)
	}
	return report, err
}

// sweepsNames removes the state of every container that is named like a run's.
type sweepsNames struct {
	faulty
	containers string
}

// Sweep implements sandbox.Runtime.
func (n *sweepsNames) Sweep(ctx context.Context, policy sandbox.SweepPolicy) (sandbox.SweepReport, error) {
	report, err := n.Runtime.Sweep(ctx, policy)
	names, err2 := namesIn(n.containers)
	for _, name := range names {
		if strings.HasPrefix(name, "batlehub-sbx-") {
			err2 = errors.Join(err2, os.RemoveAll(filepath.Join(n.containers, name)))
		}
	}
	return report, errors.Join(err, err2)
}

// networkless runs without a network whoever asks for one.
type networkless struct{ faulty }

// Run implements sandbox.Runtime.
func (n *networkless) Run(ctx context.Context, spec sandbox.RunSpec) (sandbox.RunOutput, error) {
	spec.Network = false
	return n.Runtime.Run(ctx, spec)
}
