package targets

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/runtime/oci"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/runtime/storage"
)

// ociMutants are runtimes over an engine with one wall broken each, and the
// spec that must see it: one for each flag that is a wall, and faults of the
// runtime itself. What the agent keeps is broken by bwrap's mutants.
func ociMutants(b *ociBase) []conformance.Mutant {
	argv := func(name, killer string, edits ...argvEdit) conformance.Mutant {
		return b.mutant(name, killer, breakage{edits: edits})
	}
	list := []conformance.Mutant{
		// The agent's own gate would see an open network before any spec does.
		b.mutant("the network is the engine's default", "W70", breakage{edits: []argvEdit{ociDefaultNet}, agent: noGate}),
		argv("the root is mounted read-write", "W54", ociRootWritable),
		argv("the work directory takes set-id programs and devices", "W55", b.work("suid,dev,size=512m")),
		argv("the work directory has no size", "W113", b.work("nosuid,nodev")),
		argv("the agent is given a variable of the worker's", "P01", ociVariable),
		argv("capabilities can be had", "W50", ociSomeCaps),
		argv("inside one is root", "W51", ociAsRoot...),
		argv("the engine lets privileges be gained", "W110", ociNoNewPrivs),
		argv("the engine has no filter", "W110", ociUnconfined),
		argv("the pid namespace is the host's", "W60", b.hostPIDs()...),
		argv("the IPC namespace is the host's", "W62", b.hostIPC()...),
		argv("the host name is the host's", "W65", ociHostName),
		argv("memory has no bound", "W106", ociNoMemory...),
		b.sharing("the host's programs are in the room", "W63", func(conformance.Setup) string { return "/usr/sbin:/usr/bin:ro" }),
		b.sharing("a directory of the host's is in the room", "W59", func(s conformance.Setup) string {
			dir := filepath.Dir(s.Dir)
			// Not at its own place: in a room /tmp leads to the work directory.
			return dir + ":/oldroot" + dir + ":ro"
		}),
		b.sharing("two runs share a directory", "W100", func(s conformance.Setup) string {
			dir := filepath.Join(s.Dir, "shared")
			_ = os.MkdirAll(dir, 0o777)
			_ = os.Chmod(dir, 0o777)
			return dir + ":/var/tmp:rw"
		}),
		b.wrapped("a sweep takes the young of other workers", "O03", func(s conformance.Setup, r sandbox.Runtime) sandbox.Runtime {
			return &greedy{faulty{r}, b, func(string) bool { return true }, s}
		}),
		b.wrapped("a sweep goes by the name", "O07", func(s conformance.Setup, r sandbox.Runtime) sandbox.Runtime {
			return &greedy{faulty{r}, b, func(name string) bool { return strings.Contains(name, "-bystander-") }, s}
		}),
		b.wrapped("a sweep takes nothing that is old", "O04", func(_ conformance.Setup, r sandbox.Runtime) sandbox.Runtime { return &forgetful{faulty{r}} }),
		b.wrapped("an error of the runtime is an answer", "C13", func(_ conformance.Setup, r sandbox.Runtime) sandbox.Runtime { return &optimist{faulty{r}} }),
		b.wrapped("every run is opened from the default image", "C39", func(_ conformance.Setup, r sandbox.Runtime) sandbox.Runtime { return &imageless{faulty{r}} }),
		b.mutant("containers are neither killed nor removed", "C20", breakage{ignore: []string{"kill", "rm"}}),
	}
	if b.Engine != oci.Docker {
		list = append(list, argv("there is no user namespace", "W114", ociHostUsers))
	} else {
		list = append(list, argv("processes have no bound", "W107", ociNoPIDs))
	}
	if b.Transport == oci.Mount {
		list = append(list, b.mutant("the agent leaves the exchange directory open", "W111", breakage{agent: noScope}))
	} else {
		list = append(list, ociStorageMutants(b)...)
	}
	return list
}

// mutant is a target with something broken.
func (b *ociBase) mutant(name, killer string, broken breakage) conformance.Mutant {
	b.builder.variant(broken.agent)
	return conformance.Mutant{Name: name, Killer: killer, Make: func(context.Context) (*conformance.Target, error) {
		return b.target(broken), nil
	}}
}

// sharing is a target whose runs have a volume of the host's.
func (b *ociBase) sharing(name, killer string, volume func(conformance.Setup) string) conformance.Mutant {
	return conformance.Mutant{Name: name, Killer: killer, Make: func(context.Context) (*conformance.Target, error) {
		t := b.target(breakage{})
		t.New = func(ctx context.Context, s conformance.Setup) (sandbox.Runtime, error) {
			// By the engine's own command line: extra_args may not mount everywhere.
			return b.make(ctx, s, breakage{edits: []argvEdit{{[]string{"--cap-drop", "ALL"}, []string{"--cap-drop", "ALL", "-v", volume(s)}}}})
		}
		return t, nil
	}}
}

// wrapped is a target whose runtime has a fault in between.
func (b *ociBase) wrapped(name, killer string, wrap func(conformance.Setup, sandbox.Runtime) sandbox.Runtime) conformance.Mutant {
	return conformance.Mutant{Name: name, Killer: killer, Make: func(context.Context) (*conformance.Target, error) {
		t := b.target(breakage{})
		t.New = func(ctx context.Context, s conformance.Setup) (sandbox.Runtime, error) {
			r, err := b.make(ctx, s, breakage{})
			if err != nil {
				return nil, err
			}
			return wrap(s, r), nil
		}
		return t, nil
	}}
}

// faulty passes everything on, the closing of jobs included.
type faulty struct{ sandbox.Runtime }

// CloseJob implements sandbox.JobCloser.
func (f faulty) CloseJob(ctx context.Context, worker, job string) error {
	if closer, ok := f.Runtime.(sandbox.JobCloser); ok {
		return closer.CloseJob(ctx, worker, job)
	}
	return nil
}

// greedy sweeps every container of this session's that is named like a run's,
// whoever's it is.
type greedy struct {
	faulty
	base  *ociBase
	takes func(name string) bool
	setup conformance.Setup
}

// Sweep implements sandbox.Runtime.
func (g *greedy) Sweep(ctx context.Context, policy sandbox.SweepPolicy) (sandbox.SweepReport, error) {
	report, err := g.Runtime.Sweep(ctx, policy)
	if err != nil {
		return report, err
	}
	names, err := g.base.engine(ctx, "ps", "-a", "--format", "{{.Names}}")
	for name := range strings.FieldsSeq(names) {
		if strings.HasPrefix(name, "batlehub-sbx-") && strings.Contains(name, g.setup.Token) && g.takes(name) {
			_, _ = g.base.engine(ctx, "rm", "-f", name)
		}
	}
	return report, err
}

// forgetful never sweeps by age.
type forgetful struct{ faulty }

// Sweep implements sandbox.Runtime.
func (f *forgetful) Sweep(ctx context.Context, policy sandbox.SweepPolicy) (sandbox.SweepReport, error) {
	policy.OlderThan = 0
	return f.Runtime.Sweep(ctx, policy)
}

// imageless takes every run for one of the default image.
type imageless struct{ faulty }

// Run implements sandbox.Runtime.
func (i *imageless) Run(ctx context.Context, spec sandbox.RunSpec) (sandbox.RunOutput, error) {
	spec.Image = ""
	return i.Runtime.Run(ctx, spec)
}

// ociStorageMutants break what only the storage transport has.
func ociStorageMutants(b *ociBase) []conformance.Mutant {
	return []conformance.Mutant{
		b.mutant("a run without network is on the engine's default one", "W78", breakage{edits: []argvEdit{ociDefaultNet}, agent: noGate}),
		{Name: "this host has no firewall", Killer: "W80", Make: func(ctx context.Context) (*conformance.Target, error) {
			t := b.target(breakage{agent: noGate})
			t.New = func(ctx context.Context, s conformance.Setup) (sandbox.Runtime, error) {
				if err := b.storage.open(ctx); err != nil {
					return nil, err
				}
				return b.make(ctx, s, breakage{agent: noGate})
			}
			t.Release = func(ctx context.Context, _ conformance.Setup) error { return b.storage.shut(ctx) }
			return t, nil
		}},
		{Name: "two runs are on one network", Killer: "W84", Make: func(context.Context) (*conformance.Target, error) { return b.oneNetwork(), nil }},
		{Name: "the size of a result is not looked at", Killer: "W88", Make: func(context.Context) (*conformance.Target, error) {
			return b.overLeaf(func(leaf storage.Backend) storage.Backend { return smallHeads{leaf} }), nil
		}},
		{Name: "keys beside the prefix are swept", Killer: "O08", Make: func(context.Context) (*conformance.Target, error) {
			t := b.target(breakage{})
			inner := t.New
			t.New = func(ctx context.Context, s conformance.Setup) (sandbox.Runtime, error) {
				r, err := inner(ctx, s)
				if err != nil {
					return nil, err
				}
				return &sweepsAll{faulty{r}, b.storage.store.Backend, s}, nil
			}
			return t, nil
		}},
	}
}

// oneNetwork puts all runs of a session on one network, and the host's firewall
// away: where the kernel shows it what passes a bridge, it would hold by itself.
func (b *ociBase) oneNetwork() *conformance.Target {
	t := b.target(breakage{agent: noGate})
	name := func(s conformance.Setup) string { return "conformance-shared-" + s.Token }
	t.New = func(ctx context.Context, s conformance.Setup) (sandbox.Runtime, error) {
		if err := errors.Join(b.storage.open(ctx), b.shareNetwork(ctx, name(s))); err != nil {
			return nil, err
		}
		// The runtime's own networks have no room in that one's.
		how := breakage{edits: []argvEdit{{[]string{"--network", "*"}, []string{"--network", name(s)}}}, agent: noGate}
		c := b.config(s)
		var err error
		if c.Image, err = b.image(ctx, s, how); err != nil {
			return nil, err
		}
		if c.Binary, err = b.edited(ctx, s, how); err != nil {
			return nil, err
		}
		c.StoragePool = oci.DefaultStoragePool
		return newOCI(c)
	}
	t.Release = func(ctx context.Context, s conformance.Setup) error {
		_, err := b.engine(ctx, "network", "rm", name(s))
		return errors.Join(err, b.storage.shut(ctx))
	}
	return t
}

// shareNetwork makes a network somewhere in the firewall's pool: a killed engine
// may have forgotten one of its own in it.
func (b *ociBase) shareNetwork(ctx context.Context, name string) (err error) {
	octets := b.storage.pool.Addr().As4()
	for n := range byte(16) {
		octets[3] = n << 4
		part := netip.PrefixFrom(netip.AddrFrom4(octets), 28)
		if _, err = b.engine(ctx, "network", "create", "--subnet", part.String(), name); err == nil {
			return nil
		}
	}
	return err
}

// overLeaf is a target whose hop has something between it and its backend.
func (b *ociBase) overLeaf(wrap func(storage.Backend) storage.Backend) *conformance.Target {
	t := b.target(breakage{})
	t.New = func(ctx context.Context, s conformance.Setup) (sandbox.Runtime, error) {
		c := b.config(s)
		_ = c.Hop.Close()
		c.Hop = b.hop(wrap(b.storage.store))
		var err error
		if c.Image, err = b.image(ctx, s, breakage{}); err != nil {
			return nil, err
		}
		return newOCI(c)
	}
	return t
}

// smallHeads says that every object is small.
type smallHeads struct{ storage.Backend }

// Head implements storage.Backend.
func (h smallHeads) Head(ctx context.Context, key string) (storage.Object, error) {
	o, err := h.Backend.Head(ctx, key)
	o.Size = min(o.Size, 4096)
	return o, err
}

// sweepsAll sweeps every key of this session's.
type sweepsAll struct {
	faulty
	leaf  storage.Backend
	setup conformance.Setup
}

// Sweep implements sandbox.Runtime.
func (a *sweepsAll) Sweep(ctx context.Context, policy sandbox.SweepPolicy) (sandbox.SweepReport, error) {
	report, err := a.Runtime.Sweep(ctx, policy)
	if err != nil {
		return report, err
	}
	var keys []string
	for o, err := range a.leaf.List(ctx, "planted-") {
		if err != nil {
			return report, fmt.Errorf("listing: %w", err)
		}
		if strings.Contains(o.Key, a.setup.Token) {
			keys = append(keys, o.Key)
		}
	}
	for key := range slices.Values(keys) {
		if err := a.leaf.Delete(ctx, key); err != nil {
			return report, err
		}
	}
	return report, nil
}
