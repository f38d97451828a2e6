package doctor

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/firewall"
	"github.com/batleforc/batlehub-sandbox/worker/config"
)

// host is one on which everything is well.
func host(t *testing.T) Host {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"proc/sys/kernel/seccomp/actions_avail": "kill_process errno allow\n",
		"proc/self/mountinfo":                   "1 0 0:1 / / rw - ext4 /dev/x rw\n2 1 0:2 / /proc rw,nosuid - proc proc rw\n",
		"sys/fs/cgroup/cgroup.controllers":      "cpu memory",
		"rooms/gitleaks/work":                   "",
		"etc/subuid":                            "# comment\nworker:100000:65536\n1000:1000000:196608\n",
		"etc/subgid":                            "worker:100000:262144\n",
	}
	for name, text := range files {
		put(t, filepath.Join(dir, name), text)
	}
	return Host{
		Runtimes: Runtimes{
			Bwrap: Engine{
				Find:       func(string) (string, error) { return "/usr/bin/bwrap", nil },
				Version:    func(context.Context, string) (string, bool) { return "0.9.0", true },
				MinVersion: "0.8.0", UID: 65532,
				Diagnose: func(_, stderr string) (string, []string) {
					if stderr == "" {
						return "", nil
					}
					return "kernel.x=1 on this host", []string{"a profile for bwrap alone", "or for every program: sysctl"}
				},
			},
			CheckRoom: func(string, ...string) ([]Problem, error) { return nil, nil },
			OCI:       containers(),
			Direct:    direct(nil),
		},
		Sandbox: config.Sandbox{
			MaxExtractedMB: 1, MemoryLimitMB: 16, RunDir: dir,
			Bwrap: config.Bwrap{Binary: "bwrap", Rooms: filepath.Join(dir, "rooms")},
			OCI:   config.OCI{Engine: "podman", Binary: "podman", Transport: "mount", Pull: "never", StoragePool: netip.MustParsePrefix("10.213.0.0/16")},
		},
		OpenFiles: 4096,
		Rooms:     []Room{{"gitleaks", "gitleaks"}}, Agent: "/usr/bin/batlehub-sandbox", UnsafeName: "UNSAFE",
		Proc: filepath.Join(dir, "proc"), Sys: filepath.Join(dir, "sys"), EUID: 1000,
		Try:  func(context.Context, string, int) (string, error) { return "", nil },
		Look: func(name string) (string, error) { return "/usr/bin/" + name, nil },
		Run:  answers(nil),
		Etc:  filepath.Join(dir, "etc"), User: "worker", Parallel: 4,
		Zones: func(context.Context) ([]firewall.Zone, error) { return []firewall.Zone{storageZone}, nil },
	}
}

// storageZone is what runs without network reach.
var storageZone = firewall.Zone{Pool: netip.MustParsePrefix("10.213.0.0/16"), Storage: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:9000")}}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func find(t *testing.T, checks []Check, runtime, name string) Check {
	t.Helper()
	for _, c := range checks {
		if c.Runtime == runtime && c.Name == name {
			return c
		}
	}
	t.Fatalf("no check %s %s in %+v", runtime, name, checks)
	return Check{}
}

func TestAHostOnWhichAllIsWellPasses(t *testing.T) {
	checks := Examine(t.Context(), host(t))
	if w := Worst(checks, "bwrap"); w != Pass {
		t.Errorf("%s: %+v", w, checks)
	}
	if w := Worst(checks, "oci"); w != Pass {
		t.Errorf("oci %s: %+v", w, checks)
	}
	if w := Worst(checks, "crun"); w != Pass {
		t.Errorf("crun %s: %+v", w, checks)
	}
	if w := Worst(checks, "kubernetes"); w != Skipped {
		t.Errorf("kubernetes %s", w)
	}
}

func TestEachThingThatIsWrongIsNamedWithItsFix(t *testing.T) {
	for _, c := range []struct {
		name, check string
		breakIt     func(*testing.T, *Host)
		outcome     Outcome
		detail, fix string
	}{
		{"no bwrap", "program", func(_ *testing.T, h *Host) {
			h.Bwrap.Find = func(string) (string, error) { return "", errors.New("not found") }
		}, Fail, `there is no program "bwrap"`, "apt-get install bubblewrap"},
		{"an old bwrap", "program", func(_ *testing.T, h *Host) {
			h.Bwrap.Version = func(context.Context, string) (string, bool) { return "0.4.0", false }
		}, Fail, "0.4.0, which is older than 0.8.0", "install bubblewrap 0.8.0"},
		{"a bwrap of no version", "program", func(_ *testing.T, h *Host) {
			h.Bwrap.Version = func(context.Context, string) (string, bool) { return "", true }
		}, Caution, "names no version", ""},
		{"refused namespaces", "user namespaces", func(_ *testing.T, h *Host) {
			h.Try = func(context.Context, string, int) (string, error) {
				return "bwrap: setting up uid map: Permission denied\n", errors.New("exit status 1")
			}
		}, Fail, `"bwrap: setting up uid map: Permission denied": kernel.x=1 on this host`, "a profile for bwrap alone"},
		{"a masked /proc", "user namespaces", func(t *testing.T, h *Host) {
			put(t, filepath.Join(h.Proc, "self/mountinfo"), "2 1 0:2 / /proc rw - proc proc rw\n3 2 0:3 / /proc/kcore rw - tmpfs tmpfs rw\n")
			h.Try = func(context.Context, string, int) (string, error) {
				return "Can't mount proc", errors.New("exit status 1")
			}
		}, Fail, "/proc is covered at /proc/kcore", "a profile"},
		{"hidepid", "user namespaces", func(t *testing.T, h *Host) {
			put(t, filepath.Join(h.Proc, "self/mountinfo"), "2 1 0:2 / /proc rw - proc proc rw,hidepid=invisible\n")
			h.Try = func(context.Context, string, int) (string, error) {
				return "Can't mount proc", errors.New("exit status 1")
			}
		}, Fail, "mounted with hidepid=invisible", "a profile"},
		{"no seccomp", "seccomp", func(t *testing.T, h *Host) {
			put(t, filepath.Join(h.Proc, "sys/kernel/seccomp/actions_avail"), "kill_thread\n")
		}, Fail, "no seccomp filters", "CONFIG_SECCOMP_FILTER"},
		{"root", "identity", func(_ *testing.T, h *Host) { h.EUID = 0 }, Caution, "uid 65532", "a user of its own"},
		{"a run directory that is not there", "run directory", func(_ *testing.T, h *Host) { h.Sandbox.RunDir = "/nowhere" }, Fail, "can't be written", "run_dir"},
		{"a full disk", "run directory", func(_ *testing.T, h *Host) { h.Sandbox.MaxExtractedMB = 1 << 40 }, Caution, "MiB free, and one artifact may unpack to", "max_extracted_mb"},
		{"a run directory that uid 65532 can't reach", "run directory", func(t *testing.T, h *Host) {
			h.EUID, h.Sandbox.RunDir = 0, filepath.Join(h.Sandbox.RunDir, "a")
			if err := os.MkdirAll(h.Sandbox.RunDir, 0o700); err != nil {
				t.Fatal(err)
			}
			// Everything above is passable, so that it is this one that is named.
			for d := filepath.Dir(h.Sandbox.RunDir); d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
				_ = os.Chmod(d, 0o755)
			}
		}, Fail, "can't pass through", "chmod o+x"},
		{"a missing room", "room gitleaks", func(_ *testing.T, h *Host) { h.Sandbox.Bwrap.Rooms = "/nowhere" }, Fail, "there is no tree at /nowhere/gitleaks", "sandboxctl tree gitleaks --file PATH/TO/gitleaks"},
		{"a broken room", "room gitleaks", func(_ *testing.T, h *Host) {
			h.CheckRoom = func(string, ...string) ([]Problem, error) {
				return []Problem{{"/bin/sh", "a shell", "remove it"}, {"/work", "missing", "make it"}}, nil
			}
		}, Fail, "/bin/sh: a shell (and 1 more)", "remove it"},
		{"a room that can't be looked at", "room gitleaks", func(_ *testing.T, h *Host) {
			h.CheckRoom = func(string, ...string) ([]Problem, error) { return nil, errors.New("EIO") }
		}, Fail, "EIO", "sandboxctl tree"},
		{"no scanner", "rooms", func(_ *testing.T, h *Host) { h.Rooms = nil }, Skipped, "no scanner is configured", "[scanners.<name>]"},
		{"no agent", "agent", func(_ *testing.T, h *Host) { h.Agent = "" }, Caution, "no agent", "--agent"},
		{"high limits", "limits", func(_ *testing.T, h *Host) { h.Sandbox.MemoryLimitMB = 1 << 40 }, Pass, "no inherited limit", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := host(t)
			c.breakIt(t, &h)
			got := find(t, Examine(t.Context(), h), "bwrap", c.check)
			if got.Outcome != c.outcome || !strings.Contains(got.Detail, c.detail) {
				t.Errorf("%+v, want %s %q", got, c.outcome, c.detail)
			}
			if c.fix != "" && (len(got.Fixes) == 0 || !strings.Contains(strings.Join(got.Fixes, "|"), c.fix)) {
				t.Errorf("fixes %q, want %q", got.Fixes, c.fix)
			}
			if got.Outcome == Fail && len(got.Fixes) == 0 {
				t.Error("a FAIL without a fix")
			}
		})
	}
}

func TestEveryLayoutOfCgroupsIsNamed(t *testing.T) {
	for want, file := range map[string]string{"cgroup v2;": "cgroup.controllers", "(hybrid);": "unified/cgroup.controllers", "cgroup v1;": "memory/tasks"} {
		h := host(t)
		h.Sys = t.TempDir()
		put(t, filepath.Join(h.Sys, "fs/cgroup", file), "")
		if got := h.cgroups(); !strings.Contains(got.Detail, want) {
			t.Errorf("%s: %+v", file, got)
		}
	}
}

func TestWithoutWallsIsAFailureUnlessAskedForByName(t *testing.T) {
	h := host(t)
	if got := find(t, Examine(t.Context(), h), "none", "walls"); got.Outcome != Fail {
		t.Errorf("%+v", got)
	}
	h.Unsafe = true
	if got := find(t, Examine(t.Context(), h), "none", "walls"); got.Outcome != Caution || !strings.Contains(got.Detail, "UNSAFE=1") {
		t.Errorf("%+v", got)
	}
}

func TestTryTellsASandboxFromAStub(t *testing.T) {
	stub := filepath.Join(t.TempDir(), "bwrap")
	for script, want := range map[string]string{
		"#!/bin/sh\necho no >&2\nexit 1\n": "exit status 1",
		"#!/bin/sh\nexit 0\n":              "nothing ran in the sandbox",
	} {
		if err := os.WriteFile(stub, []byte(script), 0o755); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
		if stderr, err := try(t.Context(), stub, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v", script, stderr, err)
		}
	}
}
