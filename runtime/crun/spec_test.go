package crun

import (
	"bytes"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/batleforc/batlehub-sandbox/runtime/crun/seccomp"
	"github.com/batleforc/batlehub-sandbox/wire"
)

var update = flag.Bool("update", false, "write the golden files again")

// sample is a container with the limits that the first engine of this kind had
// by default, and a seccomp profile short enough to read.
func sample(f Flavour) Container {
	policy := wire.DefaultExtractPolicy()
	policy.MaxBytes, policy.MaxEntries = 256<<20, 10_000
	return Container{
		Flavour: f,
		Room:    "/opt/sandbox/scanner",
		Inputs: []Input{
			{Host: "/var/lib/sandbox/bundles/run/in/artifact", Inside: "/bundle/artifact"},
			{Host: "/var/lib/sandbox/bundles/run/in/rules", Inside: "/bundle/rules"},
		},
		Out: "/var/lib/sandbox/bundles/run/work",
		UID: 65532, GID: 65532, UsernsBase: 100_000,
		Limits: wire.Limits{MemoryMB: 1024, Processes: 64}, CPUMilli: 1000, Policy: policy,
		CgroupPath: "/batlehub-sandbox/batlehub-sbx-job-scanner-1-x/c",
		Host:       Facts{IPC: true, CgroupNS: true, Keys: true, Swap: true},
		Seccomp: &specs.LinuxSeccomp{
			DefaultAction: specs.ActErrno, DefaultErrnoRet: new(uint(38)), Architectures: []specs.Arch{specs.ArchX86_64},
			Syscalls: []specs.LinuxSyscall{{Names: []string{"read"}, Action: specs.ActAllow}},
		},
		Label:    wire.Label{Worker: "w1", Job: "job", Scanner: "scanner", Attempt: 1},
		Deadline: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC),
	}
}

func encode(t *testing.T, c Container) (*specs.Spec, []byte) {
	t.Helper()
	s, err := Spec(c)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	return s, b
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is no longer what is built; look at the difference, then go test ./crun -update\n%s", path, got)
	}
}

// Every line of a sandbox's configuration stands in one of these files.
func TestTheConfigurationIsTheGoldenOneForEachFlavour(t *testing.T) {
	for _, f := range Flavours {
		_, b := encode(t, sample(f))
		golden(t, "config-"+string(f)+".json", b)
	}
}

func TestEveryHardeningLineIsThere(t *testing.T) {
	s, b := encode(t, sample(Crun))
	if s.Version != "1.0.2" || s.Hostname != "batlehub-sandbox" {
		t.Errorf("version %q, hostname %q", s.Version, s.Hostname)
	}
	if !s.Root.Readonly || s.Root.Path != "/opt/sandbox/scanner" {
		t.Errorf("the root is %+v", s.Root)
	}
	p := s.Process
	if !p.NoNewPrivileges || p.Terminal || p.User.UID != 65532 || p.User.GID != 65532 || len(p.User.AdditionalGids) > 0 || p.Cwd != "/work" {
		t.Errorf("the process is %+v", p)
	}
	if !slices.Equal(p.Args, []string{
		"/usr/local/bin/batlehub-sandbox", "--in", "file:///out/manifest.json", "--out", "file:///out/out.tar",
	}) {
		t.Errorf("the arguments are %q", p.Args)
	}
	if !slices.Equal(p.Env, []string{"HOME=/work", "PATH=/usr/local/bin:/usr/bin:/bin"}) {
		t.Errorf("the environment is %q", p.Env)
	}
	if !reflect.DeepEqual(p.Rlimits, []specs.POSIXRlimit{{Type: "RLIMIT_NOFILE", Hard: 4096, Soft: 4096}}) {
		t.Errorf("the limits are %+v", p.Rlimits)
	}
	var written struct {
		Process struct {
			Terminal     *bool
			Capabilities map[string][]string
		}
	}
	if err := json.Unmarshal(b, &written); err != nil {
		t.Fatal(err)
	}
	for _, set := range []string{"bounding", "effective", "inheritable", "permitted", "ambient"} {
		if list, ok := written.Process.Capabilities[set]; !ok || list == nil || len(list) > 0 {
			t.Errorf("the %s set is %v, present: %t; want an empty list", set, list, ok)
		}
	}
	if written.Process.Terminal == nil || *written.Process.Terminal {
		t.Error("terminal is not said to be false")
	}
}

func TestTheKernelsPartOfTheConfiguration(t *testing.T) {
	s, _ := encode(t, sample(Crun))
	l := s.Linux
	ids := []specs.LinuxIDMapping{{ContainerID: 0, HostID: 100_000, Size: 65536}}
	if !reflect.DeepEqual(l.UIDMappings, ids) || !reflect.DeepEqual(l.GIDMappings, ids) {
		t.Errorf("the maps are %+v and %+v", l.UIDMappings, l.GIDMappings)
	}
	if l.CgroupsPath != "/batlehub-sandbox/batlehub-sbx-job-scanner-1-x/c" || l.RootfsPropagation != "private" {
		t.Errorf("cgroup %q, propagation %q", l.CgroupsPath, l.RootfsPropagation)
	}
	for _, path := range []string{
		"/proc/acpi", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats",
		"/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/dev/block",
	} {
		if !slices.Contains(l.MaskedPaths, path) {
			t.Errorf("%s is not masked", path)
		}
	}
	for _, path := range []string{"/proc/asound", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"} {
		if !slices.Contains(l.ReadonlyPaths, path) {
			t.Errorf("%s is not read-only", path)
		}
	}
	if l.Devices != nil || l.Resources.Devices != nil || s.Hooks != nil {
		t.Error("there are devices or hooks")
	}
}

func TestLimitsAreTheRunsOwn(t *testing.T) {
	for _, c := range []struct{ memory, cpu, pids, bytes, quota, threads int64 }{
		{1024, 1000, 64, 1 << 30, 100_000, 64},
		{2048, 250, 256, 2 << 30, 25_000, 256},
		{1, 4000, 0, 1 << 20, 400_000, 256},
		{1, 10, 1, 1 << 20, 1000, 1},
	} {
		k := sample(Runc)
		k.Limits.MemoryMB, k.CPUMilli, k.Limits.Processes = c.memory, c.cpu, c.pids
		s, _ := encode(t, k)
		r := s.Linux.Resources
		if *r.Memory.Limit != c.bytes || *r.Memory.Swap != c.bytes || *r.CPU.Quota != c.quota || *r.CPU.Period != 100_000 || *r.Pids.Limit != c.threads {
			t.Errorf("%+v: memory %d, swap %d, quota %d of %d, pids %d",
				c, *r.Memory.Limit, *r.Memory.Swap, *r.CPU.Quota, *r.CPU.Period, *r.Pids.Limit)
		}
		k.Host.Swap = false
		if s, _ := encode(t, k); s.Linux.Resources.Memory.Swap != nil {
			t.Error("swap is limited where the kernel can't")
		}
	}
}

func TestNamespacesAreAllNewAndIPCFollowsTheKernel(t *testing.T) {
	c := sample(Crun)
	types := func() []specs.LinuxNamespaceType {
		s, _ := encode(t, c)
		var list []specs.LinuxNamespaceType
		for _, n := range s.Linux.Namespaces {
			if n.Path != "" {
				t.Errorf("the %s namespace is joined: %s", n.Type, n.Path)
			}
			list = append(list, n.Type)
		}
		return list
	}
	six := []specs.LinuxNamespaceType{"pid", "mount", "network", "uts", "user", "ipc"}
	if got := types(); !slices.Equal(got, append(six, "cgroup")) {
		t.Errorf("the namespaces are %v", got)
	}
	c.Host.IPC, c.Host.CgroupNS = false, false
	if got := types(); !slices.Equal(got, six[:5]) {
		t.Errorf("without ipc and cgroup namespaces they are %v", got)
	}
}

func TestMountsAreTheScratchSpaceTheInputsAndOneWritableBind(t *testing.T) {
	for _, f := range Flavours {
		c := sample(f)
		s, _ := encode(t, c)
		var places []string
		for _, m := range s.Mounts {
			places = append(places, m.Destination)
		}
		want := []string{"/proc", "/dev", "/tmp", "/work", "/bundle/artifact", "/bundle/rules", "/out"}
		if f != Runsc {
			want = slices.DeleteFunc(want, func(p string) bool { return p == "/tmp" })
		}
		if !slices.Equal(places, want) {
			t.Errorf("%s: the mounts are at %q, want %q", f, places, want)
		}
		out := s.Mounts[len(s.Mounts)-1]
		if out.Source != c.Out || out.Type != "bind" || !slices.Contains(out.Options, "rw") || slices.Contains(out.Options, "ro") {
			t.Errorf("%s: /out is %+v", f, out)
		}
		c.Inputs = nil
		if s, _ := encode(t, c); len(s.Mounts) != len(want)-2 {
			t.Errorf("%s: without inputs there are %d mounts", f, len(s.Mounts))
		}
	}
}

func TestTheScratchSpaceHasTheRunsSizeAndNoPrograms(t *testing.T) {
	c := sample(Crun)
	c.Policy.MaxBytes = 256<<20 + 1
	s, _ := encode(t, c)
	work := s.Mounts[2]
	want := []string{"rw", "size=257m", "nr_inodes=14096", "mode=1777", "noexec", "nosuid", "nodev"}
	if work.Destination != "/work" || work.Type != "tmpfs" || !slices.Equal(work.Options, want) {
		t.Errorf("the scratch space is %+v, want the options %q", work, want)
	}
}

func TestRunscLeavesARoomsTmpAsItIs(t *testing.T) {
	c := sample(Runsc)
	s, _ := encode(t, c)
	if m := s.Mounts[2]; m.Destination != "/tmp" || m.Type == "tmpfs" || m.Type == "bind" {
		t.Errorf("where /tmp is a link there is %+v", m)
	}
	c.TmpDir = true
	s, _ = encode(t, c)
	if m := s.Mounts[2]; m.Destination != "/tmp" || m.Type != "tmpfs" || m.Options[0] != "ro" {
		t.Errorf("where /tmp is a directory there is %+v", m)
	}
}

func TestTheLabelsAreAnnotations(t *testing.T) {
	s, _ := encode(t, sample(Crun))
	want := map[string]string{
		"io.batlehub.sandbox.worker": "w1", "io.batlehub.sandbox.job": "job", "io.batlehub.sandbox.scanner": "scanner",
		"io.batlehub.sandbox.attempt": "1", "io.batlehub.sandbox.deadline": "2026-11-30T12:00:00Z",
	}
	if !reflect.DeepEqual(s.Annotations, want) {
		t.Errorf("the annotations are %v", s.Annotations)
	}
}

func TestTheProfileIsTheScannersOwnOrTheReduction(t *testing.T) {
	c := sample(Crun)
	if s, _ := encode(t, c); !reflect.DeepEqual(s.Linux.Seccomp, c.Seccomp) {
		t.Error("the scanner's own profile was changed")
	}
	reduced, err := seccomp.Profile(runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	for f, want := range map[Flavour]*specs.LinuxSeccomp{Crun: reduced, Runc: reduced, Runsc: seccomp.ForGVisor(reduced)} {
		c := sample(f)
		c.Seccomp = nil
		if s, _ := encode(t, c); !reflect.DeepEqual(s.Linux.Seccomp, want) {
			t.Errorf("%s: the profile is not the reduction", f)
		}
	}
}

func TestAWithoutPivotRuncGetsAPropagationThatItTakes(t *testing.T) {
	for f, want := range map[Flavour]string{Crun: "private", Runc: "rslave", Runsc: "private"} {
		c := sample(f)
		c.Host.Ramdisk = true
		if s, _ := encode(t, c); s.Linux.RootfsPropagation != want {
			t.Errorf("%s: %q, want %q", f, s.Linux.RootfsPropagation, want)
		}
	}
}

func TestWhatCantBeASandboxHasNoConfiguration(t *testing.T) {
	for what, change := range map[string]func(*Container){
		"no room":                func(c *Container) { c.Room = "" },
		"a relative room":        func(c *Container) { c.Room = "opt/sandbox" },
		"the host's root":        func(c *Container) { c.Room = "/" },
		"a room that climbs":     func(c *Container) { c.Room = "/opt/../etc" },
		"no result":              func(c *Container) { c.Out = "" },
		"no cgroup":              func(c *Container) { c.CgroupPath = "" },
		"a relative input":       func(c *Container) { c.Inputs[0].Host = "in/artifact" },
		"an input at a relative": func(c *Container) { c.Inputs[0].Inside = "bundle" },
		"root":                   func(c *Container) { c.UID = 0 },
		"root's group":           func(c *Container) { c.GID = 0 },
		"a uid beyond the map":   func(c *Container) { c.UID = 65536 },
		"no memory limit":        func(c *Container) { c.Limits.MemoryMB = 0 },
		"no cpu limit":           func(c *Container) { c.CPUMilli = 0 },
		"less cpu than there is": func(c *Container) { c.CPUMilli = 9 },
		"no size":                func(c *Container) { c.Policy.MaxBytes = 0 },
		"no entries":             func(c *Container) { c.Policy.MaxEntries = 0 },
		"the host's own ids":     func(c *Container) { c.UsernsBase = 0 },
		"real accounts":          func(c *Container) { c.UsernsBase = 65535 },
		"ids past the last":      func(c *Container) { c.UsernsBase = 1<<32 - 65536 },
	} {
		c := sample(Crun)
		change(&c)
		if s, err := Spec(c); err == nil || s != nil {
			t.Errorf("%s: there is a configuration", what)
		}
	}
}

// Whatever a run asks for, these hold.
func TestNoConfigurationOpensAWall(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		c := sample(Flavours[r.IntN(3)])
		c.Host = Facts{IPC: r.IntN(2) == 0, CgroupNS: r.IntN(2) == 0, Ramdisk: r.IntN(2) == 0, Keys: r.IntN(2) == 0, V1: r.IntN(2) == 0, Swap: r.IntN(2) == 0}
		c.UID, c.GID = 1+r.Uint32N(65535), 1+r.Uint32N(65535)
		c.UsernsBase = 65536 + r.Uint32N(1<<31)
		c.TmpDir = r.IntN(2) == 0
		c.Limits.MemoryMB, c.CPUMilli = 1+r.Int64N(1<<20), minCPUMilli+r.Int64N(1<<16)
		c.Policy.MaxBytes = 1 + r.Int64N(1<<40)
		c.Inputs = c.Inputs[:r.IntN(3)]
		c.Label.Job = []string{"a", "run.oci.handler", "x-y"}[r.IntN(3)]
		if r.IntN(2) == 0 {
			c.Seccomp = nil
		}
		s, b := encode(t, c)
		if bytes.Contains(bytes.ToLower(b), []byte("unconfined")) || s.Linux.Seccomp == nil || s.Linux.Seccomp.DefaultAction == specs.ActAllow {
			t.Fatal("there is no seccomp profile")
		}
		checkMounts(t, c, s)
		for key := range s.Annotations {
			if strings.HasPrefix(key, "run.oci.") {
				t.Fatalf("there is the annotation %s", key)
			}
		}
		if s.Hooks != nil || s.Linux.Devices != nil || !s.Root.Readonly || !s.Process.NoNewPrivileges {
			t.Fatalf("the configuration is %s", b)
		}
		for _, n := range s.Linux.Namespaces {
			if n.Path != "" {
				t.Fatalf("the namespace %s is joined", n.Path)
			}
		}
		if m := s.Linux.UIDMappings; len(m) != 1 || m[0].HostID < 65536 || m[0].HostID+m[0].Size < m[0].HostID {
			t.Fatalf("the map is %+v", m)
		}
	}
}

func checkMounts(t *testing.T, c Container, s *specs.Spec) {
	t.Helper()
	writable := 0
	for _, m := range s.Mounts {
		if m.Type != "bind" {
			continue
		}
		for _, option := range []string{"nosuid", "nodev", "noexec"} {
			if !slices.Contains(m.Options, option) || c.Flavour != Runsc && !slices.Contains(m.Options, "r"+option) {
				t.Fatalf("%s lacks %s: %q", m.Destination, option, m.Options)
			}
		}
		if !slices.Contains(m.Options, "ro") {
			writable++
		}
		if slices.Contains(m.Options, "ro") == slices.Contains(m.Options, "rw") {
			t.Fatalf("%s is neither one nor the other: %q", m.Destination, m.Options)
		}
	}
	if writable != 1 {
		t.Fatalf("%d binds can be written", writable)
	}
}

func TestTheConfigurationIsPure(t *testing.T) {
	for _, f := range Flavours {
		_, a := encode(t, sample(f))
		_, b := encode(t, sample(f))
		if !bytes.Equal(a, b) {
			t.Errorf("%s: two configurations of one container differ", f)
		}
	}
}
