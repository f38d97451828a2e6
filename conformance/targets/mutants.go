package targets

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/runtime/room"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// bwrapMutants are runtimes over bwrap with one wall broken each, and the spec
// that must see it.
func bwrapMutants(b *Builder) []conformance.Mutant {
	argv := func(name, killer string, edits ...argvEdit) conformance.Mutant {
		return mutant(b, name, killer, breakage{edits: edits})
	}
	// The agent's own gate would see an open network before any spec does.
	network := func(name, killer string) conformance.Mutant {
		return mutant(b, name, killer, breakage{edits: []argvEdit{shareNetwork}, agent: slices.Concat(noGate, noScope)})
	}
	agent := func(name, killer string, edits ...Edit) conformance.Mutant {
		return mutant(b, name, killer, breakage{agent: edits})
	}
	rooted := mutant(b, "the room is writable", "W53", breakage{edits: []argvEdit{writableRoot}, writable: true})
	return []conformance.Mutant{
		network("the network is the host's", "W70"),
		network("the network is the host's, seen through abstract sockets", "W76"),
		rooted,
		argv("the root is mounted read-write", "W54", writableRoot),
		argv("the agent is given a variable of the worker's", "P01", leakVariable),
		argv("the pid namespace is the host's", "W60", sharePIDs...),
		argv("the IPC namespace is the host's", "W62", shareIPC),
		argv("the host name is the host's", "W65", shareUTS...),
		argv("the work directory takes device nodes", "W55", deviceWork),
		argv("capabilities are kept", "W50", allCaps),
		argv("inside one is root", "W51", asRoot),
		argv("the host's programs are in the room", "W63", hostPrograms),
		argv("a sandbox outlives its worker", "W112", noDeathWish),
		{Name: "two runs share a directory", Killer: "W100", Make: func(context.Context) (*conformance.Target, error) { return sharedDirectory(b), nil }},
		{Name: "the root is the host's", Killer: "W59", Make: func(context.Context) (*conformance.Target, error) { return hostRoot(b) }},
		agent("the agent installs no filter", "W01", noFilter...),
		agent("the agent puts the scanner into no domain", "W82", noScope...),
		agent("the agent puts the scanner into no domain, seen from another run", "W83", noScope...),
		agent("the agent can be read by its own uid", "W35", noScope[0], Edit{"agent/cmd/batlehub-sandbox/harden.go", "unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)", "unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)"}),
		agent("the agent heeds signals", "W39", noScope[0], Edit{"agent/cmd/batlehub-sandbox/harden.go", "signals.Ignore()", "signals.Default(); go heed()"}, Edit{"agent/cmd/batlehub-sandbox/main.go", "func main() {", heed}, Edit{"agent/cmd/batlehub-sandbox/main.go", "\t\"os\"\n", "\t\"os\"\n\t\"os/signal\"\n"}),
		agent("the agent leaves its URLs in argv", "W37", Edit{"agent/cmd/batlehub-sandbox/arguments.go", "clear(unsafe.Slice(unsafe.StringData(s), len(s)))", "_ = unsafe.StringData(s)"}),
		agent("the agent leaves the manifest", "W42", Edit{"agent/layout.go", "\t\treturn os.Remove(name)", "\t\treturn os.Chmod(name, 0o444)"}),
		agent("the agent sets no limit on memory", "W102", Edit{"agent/internal/launch/stage/limits.go", "{unix.RLIMIT_AS, job.AddressSpace, 0},", "{unix.RLIMIT_AS, -1 + 0*job.AddressSpace, 0},"}),
		agent("the agent sets no limit on file size", "W103", Edit{"agent/internal/launch/stage/limits.go", "{unix.RLIMIT_FSIZE, job.FileSize, 0},", "{unix.RLIMIT_FSIZE, -1 + 0*job.FileSize, 0},"}),
		agent("the agent sets no limit on processes", "W107", Edit{"agent/internal/launch/stage/limits.go", "{unix.RLIMIT_NPROC, job.Processes, 0},", "{unix.RLIMIT_NPROC, -1 + 0*job.Processes, 0},"}),
		agent("the agent follows what stands at the result's place", "W93", Edit{"agent/internal/collect/place.go", "func (p *Place) Write(b []byte) error {", followPlace}),
		agent("the agent passes its environment on", "C09", Edit{"agent/internal/launch/stage/*.go", "\"HOME=\" + job.Home, \"PATH=\" + job.Path}", "\"HOME=\" + job.Home, \"PATH=\" + job.Path, \"LEAKED=1\"}"}),
		agent("the agent lets symbolic links lead out", "E33", Edit{"agent/extract/links.go", "func (t *tree) leadsOut(l *link) bool {", "func (t *tree) leadsOut(l *link) bool {\n\tif true {\n\t\treturn false\n\t}"}),
		agent("the agent writes no note of duplicates", "E59", Edit{"agent/extract/report.go", "func (x *Extractor) note(", noNotes}),
		{Name: "an error of the runtime is an answer", Killer: "C13", Make: wrapped(b, func(r sandbox.Runtime) sandbox.Runtime { return &optimist{faulty{r}} })},
		{Name: "the runtime takes requests that contradict themselves", Killer: "C21", Make: wrapped(b, func(r sandbox.Runtime) sandbox.Runtime { return &careless{faulty{r}} })},
	}
}

const heed = `func heed() {
	c := make(chan os.Signal, 1)
	signal.Notify(c)
	<-c
	os.Exit(1)
}

func main() {`

const followPlace = `func (p *Place) Write(b []byte) error {
	return os.WriteFile(filepath.Join(p.dir.Name(), p.name), b, 0o600)
}

func (p *Place) safeWrite(b []byte) error {`

const noNotes = `func (x *Extractor) note(entry, rule, action, detail string) {}

func (x *Extractor) realNote(`

func mutant(b *Builder, name, killer string, broken breakage) conformance.Mutant {
	b.variant(broken.agent)
	return conformance.Mutant{Name: name, Killer: killer, Make: func(context.Context) (*conformance.Target, error) {
		t := bwrapWith(b, broken)
		if killer == "W112" {
			self, err := os.Executable()
			if err != nil {
				return nil, err
			}
			t.Capabilities = append(t.Capabilities, conformance.Worker)
			t.Worker = workerOf(self, unwatchedBwrap)
		}
		return t, nil
	}}
}

// sharedDirectory puts one directory of the host's into every run.
func sharedDirectory(b *Builder) *conformance.Target {
	t := bwrapWith(b, breakage{})
	t.New = func(ctx context.Context, s conformance.Setup) (sandbox.Runtime, error) {
		shared := filepath.Join(s.Dir, "shared")
		if err := os.MkdirAll(shared, 0o777); err != nil {
			return nil, err
		}
		if err := os.Chmod(shared, 0o777); err != nil {
			return nil, err
		}
		edit := argvEdit{[]string{"--remount-ro", "/dev"}, []string{"--bind", shared, "/dev/shm", "--remount-ro", "/dev"}}
		return makeBwrap(ctx, b, s, "rooms", breakage{edits: []argvEdit{edit}})
	}
	return t
}

// hostRoot makes the root of everything that the host's has, but what a run
// brings along itself.
func hostRoot(b *Builder) (*conformance.Target, error) {
	entries, err := os.ReadDir("/")
	if err != nil {
		return nil, err
	}
	with := []string{"--tmpfs", "/"}
	for _, e := range entries {
		switch name := "/" + e.Name(); {
		case name == "/proc" || name == "/dev" || name == "/work" || name == "/sys" || !e.IsDir():
		default:
			with = append(with, "--ro-bind", name, name)
		}
	}
	t := bwrapWith(b, breakage{})
	t.Program = func(s conformance.Setup, name string) string { return s.Programs[name] }
	t.New = func(ctx context.Context, s conformance.Setup) (sandbox.Runtime, error) {
		agent := filepath.Join(s.Dir, "rooms", scanner, room.AgentPath)
		return makeBwrap(ctx, b, s, "rooms", breakage{edits: []argvEdit{
			{[]string{"--ro-bind", "*", "/"}, with},
			{[]string{"--", "batlehub-sandbox"}, []string{"--", agent}},
		}})
	}
	return t, nil
}

// wrapped is a target whose runtime is another one's with a fault in between.
func wrapped(b *Builder, wrap func(sandbox.Runtime) sandbox.Runtime) func(context.Context) (*conformance.Target, error) {
	return func(context.Context) (*conformance.Target, error) {
		t := bwrapWith(b, breakage{})
		inner := t.New
		t.New = func(ctx context.Context, s conformance.Setup) (sandbox.Runtime, error) {
			r, err := inner(ctx, s)
			if err != nil {
				return nil, fmt.Errorf("making the mutant: %w", err)
			}
			return wrap(r), nil
		}
		return t, nil
	}
}

// optimist takes no answer for a clean one.
type optimist struct{ faulty }

func (o *optimist) Run(ctx context.Context, spec sandbox.RunSpec) (sandbox.RunOutput, error) {
	out, err := o.Runtime.Run(ctx, spec)
	if err != nil {
		clean := 0
		return sandbox.RunOutput{Status: &clean}, nil //nolint:nilerr // this is what is wrong with it
	}
	return out, nil
}

// careless runs what contradicts itself.
type careless struct{ faulty }

func (c *careless) Run(ctx context.Context, spec sandbox.RunSpec) (sandbox.RunOutput, error) {
	if len(spec.Argv) == 0 || spec.Argv[0] == "" {
		clean := 0
		return sandbox.RunOutput{Status: &clean}, nil
	}
	return c.Runtime.Run(ctx, spec)
}
