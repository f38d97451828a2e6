package crun

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// stub is a program that says it is runc, and does in each verb what a test
// wants. $name, $bundle, $work and $root are set; every verb is logged.
type stub struct {
	version, run, kill, delete, state string
}

func (s stub) script(log string) string {
	or := func(body, otherwise string) string {
		if body == "" {
			return otherwise
		}
		return body
	}
	return `#!/bin/sh
if [ "$1" = --version ]; then
` + or(s.version, `echo "runc version 1.1.5"`) + `
exit
fi
root=$2
shift 2
verb=$1
echo "$@" >>` + log + `
for name in "$@"; do :; done
case $verb in
run)
	while [ "$1" != --bundle ]; do shift; done
	bundle=$2; work=$2/work
	` + or(s.run, "exit 0") + `
	;;
kill) name=$2
	` + or(s.kill, "exit 1") + `
	;;
delete)
	` + or(s.delete, `rm -rf "$root/$name"`) + `
	;;
state)
	` + or(s.state, `test -e "$root/$name"`) + `
	;;
esac
`
}

// stubbed is a runtime over a stub and a room in which nothing is started. The
// log has a line for each verb but --version.
func stubbed(t *testing.T, s stub) (r *Runtime, log string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not run: it takes root to make mounts and cgroups")
	}
	if _, fault := (host{}).layout(Runc); fault != nil {
		t.Skipf("not run: %v", fault)
	}
	dir := testkit.Dir(t)
	program := filepath.Join(dir, "runc")
	log = filepath.Join(dir, "log")
	put(t, program, s.script(log))
	chmod(t, program, 0o755)
	rooms, room := bareRoom(t)
	for d := rooms; d != "/"; d = filepath.Dir(d) {
		if info, err := os.Stat(d); err == nil && info.Mode().Perm()&1 == 0 {
			chmod(t, d, 0o755)
		}
	}
	if _, err := WritePin(t.Context(), room); err != nil {
		t.Fatal(err)
	}
	return over(t, program, rooms, nil), log
}

func logged(t *testing.T, log string) []string {
	t.Helper()
	b, err := os.ReadFile(log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

func asFault(t *testing.T, err error) *sandbox.Error {
	t.Helper()
	e, ok := errors.AsType[*sandbox.Error](err)
	if !ok {
		t.Fatalf("got %v, want a *sandbox.Error", err)
	}
	return e
}

// An end is an answer only if it is a good one and a result is there.
func TestTheEndOfARunIsReadFromItsStatus(t *testing.T) {
	for _, c := range []struct {
		what, body string
		kind       sandbox.Kind
		code       sandbox.Code
		signal     string
		says       string
	}{
		{"0 without a result", "exit 0", sandbox.ResultInvalid, sandbox.CodeNoResult, "", "no result came back"},
		{"a program that can't start it", "echo oops >&2; exit 1", sandbox.Crashed, sandbox.CodeNoResult, "", "oops"},
		{"the agent's own status", "exit 66", sandbox.Crashed, sandbox.CodeNoResult, "", "the result could not be stored"},
		{"killed inside", "exit 137", sandbox.Crashed, sandbox.CodeNoResult, "SIGKILL", "the agent was killed by SIGKILL"},
		{"a crash", "exit 139", sandbox.Crashed, sandbox.CodeNoResult, "SIGSEGV", "SIGSEGV"},
		{"terminated", "exit 143", sandbox.Crashed, sandbox.CodeNoResult, "SIGTERM", "SIGTERM"},
		{"a forbidden call", "exit 159", sandbox.Crashed, sandbox.CodeNoResult, "SIGSYS", "SIGSYS"},
		{"the program killed", "kill -9 $$", sandbox.Crashed, sandbox.CodeNoResult, "SIGKILL", "runc was killed by SIGKILL"},
		{"a result, but a bad end", "echo x >$work/out.tar; exit 1", sandbox.Crashed, sandbox.CodeNoResult, "", "exited 1"},
		{"a FIFO", "mkfifo $work/out.tar", sandbox.ResultInvalid, sandbox.CodeForged, "", "not a regular file"},
		{"a link", "ln -s /etc/passwd $work/out.tar", sandbox.ResultInvalid, sandbox.CodeForged, "", "symbolic link"},
		{"an oversized result", "truncate -s 20M $work/out.tar", sandbox.ResultInvalid, sandbox.CodeForged, "", "want at most"},
		{"something else", "echo x >$work/out.tar", sandbox.ResultInvalid, "", "", ""},
		{"a link to the manifest", "ln $work/manifest.json $work/out.tar", sandbox.ResultInvalid, sandbox.CodeForged, "", "2 names"},
	} {
		t.Run(c.what, func(t *testing.T) {
			r, log := stubbed(t, stub{run: c.body})
			_, err := r.Run(t.Context(), scan("true"))
			e := asFault(t, err)
			if lines := logged(t, log); len(lines) != 1 {
				t.Errorf("a run that ended by itself takes one call of the program: %q", lines)
			}
			if e.Kind != c.kind || e.Code != c.code || e.Signal != c.signal || e.OOMKilled || !strings.Contains(e.Error(), c.says) {
				t.Errorf("got %v (signal %q), want %s (%s) about %q", e, e.Signal, c.kind, c.code, c.says)
			}
			if !strings.HasPrefix(e.Error(), "sandbox crun: run job-scanner-1: ") || strings.Contains(e.Error(), "\n") {
				t.Errorf("the error is %q", e.Error())
			}
		})
	}
}

func TestWhetherMemoryRanOutIsSaidToBeUnknownWhereItIs(t *testing.T) {
	if l, fault := (host{}).layout(Runc); fault != nil || !l.isV1() {
		t.Skip("not run: cgroup v2 always tells")
	}
	for _, end := range []string{
		"exit 137",
		`echo "open /sys/fs/cgroup/memory/x/cgroup.procs: no such file or directory" >&2; exit 1`,
	} {
		r, _ := stubbed(t, stub{run: end})
		_, err := r.Run(t.Context(), scan("true"))
		if e := asFault(t, err); e.OOMKilled || !strings.Contains(e.Detail, "not known") {
			t.Errorf("%s: got %v", end, e)
		}
	}
}

func TestAStartThatTheKernelRefusedIsNotLaidToMemory(t *testing.T) {
	r, _ := stubbed(t, stub{run: `echo "runc run failed: exec: permission denied" >&2; exit 1`})
	_, err := r.Run(t.Context(), scan("true"))
	if e := asFault(t, err); e.Kind != sandbox.Crashed || strings.Contains(e.Detail, "memory") || !strings.Contains(e.Error(), "permission denied") {
		t.Errorf("got %v", e)
	}
}

func TestAProgramThatHangsBeforeTheManifestIsTakenIsAStartTimeout(t *testing.T) {
	r, log := stubbed(t, stub{run: "exec sleep 600"})
	spec := scan("true")
	spec.StartTimeout = 300 * time.Millisecond
	_, err := r.Run(t.Context(), spec)
	if sandbox.KindOf(err) != sandbox.StartTimeout {
		t.Errorf("got %v", err)
	}
	if lines := logged(t, log); len(lines) < 2 || !strings.HasPrefix(lines[1], "kill batlehub-sbx-job-scanner-1-") || !strings.HasSuffix(lines[1], " KILL") {
		t.Errorf("the verbs are %q", lines)
	}
}

func TestAProgramThatHangsAfterwardsIsARunTimeout(t *testing.T) {
	r, _ := stubbed(t, stub{run: "rm $work/manifest.json; exec sleep 600"})
	spec := scan("true")
	spec.StartTimeout, spec.Timeout = time.Second, 500*time.Millisecond
	if _, err := r.Run(t.Context(), spec); sandbox.KindOf(err) != sandbox.RunTimeout {
		t.Errorf("got %v", err)
	}
}

func TestACancelledRunIsEndedInTheSameWay(t *testing.T) {
	r, log := stubbed(t, stub{run: "touch $bundle/started; exec sleep 600"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := r.Run(ctx, scan("true"))
		done <- err
	}()
	started := filepath.Join(r.bundlesDir(Runc), "*", "started")
	if !testkit.Eventually(10*time.Second, func() bool { m, _ := filepath.Glob(started); return len(m) == 1 }) {
		t.Fatal("it did not start")
	}
	cancel()
	if err := <-done; sandbox.KindOf(err) != sandbox.Cancelled || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if lines := logged(t, log); len(lines) < 2 || !strings.HasPrefix(lines[1], "kill ") {
		t.Errorf("the verbs are %q", lines)
	}
}

// A kill by name ends the program; its own death is not needed then.
func TestAKillByNameIsGivenTimeToWork(t *testing.T) {
	r, log := stubbed(t, stub{
		run:  `mkfifo $root/$name.pipe; mkdir $root/$name; read x <$root/$name.pipe; rm $root/$name.pipe; exit 137`,
		kill: `echo x >$root/$name.pipe`,
	})
	spec := scan("true")
	spec.StartTimeout = 300 * time.Millisecond
	_, err := r.Run(t.Context(), spec)
	if sandbox.KindOf(err) != sandbox.StartTimeout {
		t.Errorf("got %v", err)
	}
	if lines := logged(t, log); len(lines) != 2 {
		t.Errorf("the verbs are %q", lines)
	}
}

// left starts a process that outlives its program, in the run's cgroup.
const left = `mkdir $root/$name
	(exec sleep 600) </dev/null >/dev/null 2>&1 &
	for d in /sys/fs/cgroup/*/batlehub-test-*/$name /sys/fs/cgroup/batlehub-test-*/$name; do
		test -d $d && mkdir -p $d/c && echo $! >$d/c/cgroup.procs
	done
	echo $! >` + "$bundle/pid; "

func TestWhatOutlivesItsProgramIsEndedByItsCgroup(t *testing.T) {
	for what, c := range map[string]struct {
		stub  stub
		verbs string
	}{
		"a program that deletes": {stub{run: left + "exit 1"}, "run kill delete state"},
		"one that can't":         {stub{run: left + "exit 1", delete: "exit 1", state: "exit 0"}, "run kill delete state"},
		// Nothing of it runs any more once its time is up.
		"one that hangs": {stub{run: left + "exec sleep 600", kill: "kill -9 $$", delete: "kill -9 $$", state: "kill -9 $$"}, "run kill"},
	} {
		t.Run(what, func(t *testing.T) {
			r, log := stubbed(t, c.stub)
			spec := scan("true")
			spec.StartTimeout = time.Second
			if _, err := r.Run(t.Context(), spec); sandbox.KindOf(err) != sandbox.Crashed && sandbox.KindOf(err) != sandbox.StartTimeout {
				t.Errorf("got %v", err)
			}
			var verbs []string
			for _, line := range logged(t, log) {
				verbs = append(verbs, strings.Fields(line)[0])
			}
			// A kill that did not work is tried again.
			if got := strings.Join(slices.Compact(verbs), " "); got != c.verbs {
				t.Errorf("the verbs are %q, want %q", got, c.verbs)
			}
			if pids, _ := filepath.Glob(filepath.Join(r.bundlesDir(Runc), "*/pid")); len(pids) > 0 {
				t.Errorf("%q are left", pids)
			}
		})
	}
}

func TestAnOldOrMissingProgramIsNoEngine(t *testing.T) {
	rooms, room := bareRoom(t)
	if _, err := WritePin(t.Context(), room); err != nil {
		t.Fatal(err)
	}
	dir := testkit.Dir(t)
	for name, script := range map[string]string{
		"fails": "#!/bin/sh\necho broken >&2\nexit 3\n", "stranger": "#!/bin/sh\necho youki version 0.3\n", "silent": "#!/bin/sh\n",
	} {
		put(t, filepath.Join(dir, name), script)
		chmod(t, filepath.Join(dir, name), 0o755)
	}
	put(t, filepath.Join(dir, "plain"), "text")
	for program, want := range map[string]struct {
		code sandbox.Code
		says string
	}{
		"no-such-program":              {sandbox.CodeNoEngine, `no program "no-such-program"`},
		"/nonexistent/runc":            {sandbox.CodeNoEngine, "/nonexistent/runc"},
		filepath.Join(dir, "plain"):    {sandbox.CodeNoEngine, "can't be run"},
		dir:                            {sandbox.CodeNoEngine, "can't be run"},
		filepath.Join(dir, "fails"):    {sandbox.CodeNoEngine, "exited 3"},
		filepath.Join(dir, "stranger"): {sandbox.CodeConfig, "youki version 0.3"},
		filepath.Join(dir, "silent"):   {sandbox.CodeConfig, "none of crun, runc and runsc"},
	} {
		r, err := New(Config{Program: program, Rooms: rooms, StateDir: filepath.Join(testkit.Dir(t), "state")})
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Run(t.Context(), scan("true"))
		e := asFault(t, err)
		if e.Kind != sandbox.Refused || e.Code != want.code || !strings.Contains(e.Error(), want.says) {
			t.Errorf("%s: got %v, want %s about %q", program, err, want.code, want.says)
		}
		entries, _ := filepath.Glob(filepath.Join(r.config.StateDir, "*", "bundles", "*"))
		if len(entries) > 0 {
			t.Errorf("%s: %q are left", program, entries)
		}
	}
}

func TestARefusalIsNotRemembered(t *testing.T) {
	r, _ := stubbed(t, stub{version: "exit 1"})
	if _, err := r.Run(t.Context(), scan("true")); sandbox.CodeOf(err) != sandbox.CodeNoEngine {
		t.Fatalf("got %v", err)
	}
	put(t, r.config.Program, stub{}.script(filepath.Join(testkit.Dir(t), "log")))
	if _, err := r.Run(t.Context(), scan("true")); sandbox.KindOf(err) != sandbox.ResultInvalid {
		t.Errorf("after the repair: %v", err)
	}
}

// Everything is wrong at once, and put right one after the other: what is
// named is always the first in order.
func TestWhatIsMissingIsNamedInOneOrder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not run: it takes root to make cgroups")
	}
	rooms, room := bareRoom(t)
	remove(t, filepath.Join(room, AgentPath))
	dir := testkit.Dir(t)
	bad := without("/proc/self/ns/user", "/proc/self/status", "/sys/fs/cgroup/cgroup.controllers")
	bad["/proc/self/mountinfo"] = ""
	c := Config{Program: filepath.Join(dir, "runc"), Rooms: "relative", StateDir: filepath.Join(dir, "none/state")}
	r, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	r.host = laid(t, bad)
	expect := func(code sandbox.Code, says string) {
		t.Helper()
		_, fault := r.ready(t.Context(), "scanner", false)
		if fault == nil || fault.Kind != sandbox.Refused || fault.Code != code || !strings.Contains(fault.Error(), says) {
			t.Fatalf("got %v, want %s about %q", fault, code, says)
		}
	}
	expect(sandbox.CodeConfig, "not an absolute path")
	r.rooms.dir, r.config.Rooms = rooms, rooms
	expect(sandbox.CodeImageMissing, "no agent")
	put(t, filepath.Join(room, AgentPath), "agent")
	chmod(t, filepath.Join(room, AgentPath), 0o755)
	expect(sandbox.CodeImageMissing, "no digest")
	if _, err := WritePin(t.Context(), room); err != nil {
		t.Fatal(err)
	}
	expect(sandbox.CodeConfig, r.config.StateDir)
	r.config.StateDir = filepath.Join(dir, "state")
	expect(sandbox.CodeNoEngine, c.Program)
	put(t, c.Program, "#!/bin/sh\necho runc version 1.1.5\n")
	chmod(t, c.Program, 0o755)
	for d := rooms; d != "/"; d = filepath.Dir(d) {
		chmod(t, d, 0o755|os.ModeSticky)
		if filepath.Dir(d) == os.TempDir() {
			break
		}
	}
	expect(sandbox.CodeNotRootless, "user namespace")
	put(t, filepath.Join(r.host.root, "/proc/self/ns/user"), "")
	expect(sandbox.CodeNotRootless, "status")
	put(t, filepath.Join(r.host.root, "/proc/self/status"), ordinaryHost()["/proc/self/status"])
	expect(sandbox.CodeNoEngine, "no cgroups are mounted")
}

func TestRequestsThatNoSandboxOfThisKindHasAreRefused(t *testing.T) {
	r, log := stubbed(t, stub{})
	for what, change := range map[string]func(*sandbox.RunSpec){
		"a network":                    func(s *sandbox.RunSpec) { s.Network = true },
		"an image":                     func(s *sandbox.RunSpec) { s.Image = "alpine" },
		"a label that is no name":      func(s *sandbox.RunSpec) { s.Label.Job = "../x" },
		"no scratch space left to use": func(s *sandbox.RunSpec) { s.Limits.MemoryMB = 512 },
		"no command":                   func(s *sandbox.RunSpec) { s.Argv = nil },
		"an input from anywhere": func(s *sandbox.RunSpec) {
			s.Bundle.Entries = []wire.Entry{{Path: wire.MustRelPath("a"), Kind: wire.File, URL: "https://example.org/x", Size: 1}}
		},
	} {
		spec := scan("true")
		change(&spec)
		_, err := r.Run(t.Context(), spec)
		if sandbox.KindOf(err) != sandbox.Refused || sandbox.CodeOf(err) != sandbox.CodeConfig {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if lines := logged(t, log); len(lines) != 1 || lines[0] != "" {
		t.Errorf("the program was called: %q", lines)
	}
}

func TestAConfigurationThatContradictsItselfIsRefused(t *testing.T) {
	for what, change := range map[string]func(*Config){
		"root inside":            func(c *Config) { c.User = "0" },
		"a name for a user":      func(c *Config) { c.User = "nobody" },
		"a flavour there is not": func(c *Config) { c.Flavour = "youki" },
		"a cgroup at the root":   func(c *Config) { c.CgroupParent = "/x" },
		"a cgroup above":         func(c *Config) { c.CgroupParent = "../x" },
		"no cgroup":              func(c *Config) { c.CgroupParent = "." },
		"less than no cpu":       func(c *Config) { c.CPUMilli = -1 },
		"a relative state":       func(c *Config) { c.StateDir = "state" },
		"the root as the state":  func(c *Config) { c.StateDir = "/" },
	} {
		var c Config
		change(&c)
		if _, err := New(c); sandbox.CodeOf(err) != sandbox.CodeConfig {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

func TestAConfigurationThatSaysNothingHasTheDefaults(t *testing.T) {
	r, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := r.config
	if c.Program != "crun" || c.Rooms != "/opt/sandbox" || c.UsernsBase != 100_000 || c.CPUMilli != 1000 ||
		c.CgroupParent != "batlehub-sandbox" || r.uid != 65532 || r.gid != 65532 || c.StateDir != "/var/lib/batlehub-sandbox/crun" {
		t.Errorf("the defaults are %+v", c)
	}
	if r.Name() != "crun" {
		t.Errorf("the name is %q", r.Name())
	}
	limits := wire.DefaultLimits()
	if limits.MemoryMB != 2048 || limits.Processes != 256 {
		t.Errorf("the limits are %+v", limits)
	}
}

func TestManyRunsLeaveNoDescriptorAndNoGoroutine(t *testing.T) {
	r, _ := stubbed(t, stub{})
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	run := func() {
		if _, err := r.Run(t.Context(), scan("true")); sandbox.KindOf(err) != sandbox.ResultInvalid {
			t.Fatalf("got %v", err)
		}
	}
	run()
	descriptors, goroutines := count(), runtime.NumGoroutine()
	for range 30 {
		run()
	}
	if !testkit.Eventually(5*time.Second, func() bool { return runtime.NumGoroutine() <= goroutines }) {
		t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), goroutines)
	}
	if n := count(); n > descriptors {
		t.Errorf("%d descriptors, %d before", n, descriptors)
	}
	nothingInState(t, r)
}
