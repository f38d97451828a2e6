package bwrap

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// sight is what testdata/agent saw.
type sight struct {
	UID, GID, PID           int
	Environ, Args, Root     []string
	Mounts, Status, UIDMap  string
	Hostname, Dir           string
	Descriptors, Interfaces []string
	Session                 bool
	RootOpen, Sysctl        string
	NewUserns               string
}

func lookFrom(t *testing.T, r *Runtime, network bool) sight {
	t.Helper()
	spec := verb("look")
	spec.Network = network
	out, err := r.Run(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	var s sight
	if err := json.Unmarshal(out.Stdout, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTheSandboxIsWhatTheArgvSays(t *testing.T) {
	r, _ := live(t)
	s := lookFrom(t, r, false)
	if s.UID != UID || s.GID != UID || s.PID != 1 {
		t.Errorf("uid %d, gid %d, pid %d", s.UID, s.GID, s.PID)
	}
	slices.Sort(s.Environ)
	if !slices.Equal(s.Environ, []string{"HOME=/work", "PATH=/usr/local/bin:/usr/bin:/bin", "PWD=/work"}) &&
		!slices.Equal(s.Environ, []string{"HOME=/work", "PATH=/usr/local/bin:/usr/bin:/bin"}) {
		t.Errorf("the environment is %q", s.Environ)
	}
	if want := []string{"batlehub-sandbox", "--in", "file:///work/manifest.json", "--out", "file:///work/out.tar"}; !slices.Equal(s.Args, want) {
		t.Errorf("the agent's argv is %q", s.Args)
	}
	if s.Hostname != "sandbox" || s.Dir != "/work" || !s.Session {
		t.Errorf("hostname %q, directory %q, session %t", s.Hostname, s.Dir, s.Session)
	}
	if !strings.Contains(s.Status, "CapEff:\t0000000000000000") || !strings.Contains(s.Status, "CapBnd:\t0000000000000000") {
		t.Errorf("there are capabilities: %s", s.Status)
	}
	if want := (&os.PathError{Op: "open", Path: "/usr/bin/.probe", Err: syscall.EROFS}).Error(); s.RootOpen != want {
		t.Errorf("writing to the root: %s", s.RootOpen)
	}
	if s.Sysctl == "opened" {
		t.Error("a sysctl of the host was opened for writing")
	}
	if s.NewUserns == "made" {
		t.Error("another user namespace can be made")
	}
	if !slices.Equal(s.Interfaces, []string{"lo"}) {
		t.Errorf("the network has %q", s.Interfaces)
	}
}

func TestTheRootIsTheRoomAndNeverTheHosts(t *testing.T) {
	r, _ := live(t)
	s := lookFrom(t, r, false)
	if want := []string{"bundle", "dev", "out", "proc", "tmp", "usr", "work"}; !slices.Equal(s.Root, want) {
		t.Errorf("/ holds %q, want %q", s.Root, want)
	}
}

func TestTheWorkDirectoryIsTheOnlyWritableMount(t *testing.T) {
	r, _ := live(t)
	var writable []string
	for line := range strings.Lines(lookFrom(t, r, false).Mounts) {
		fields := strings.Fields(line)
		options := strings.Split(fields[5], ",")
		if slices.Contains(options, "rw") {
			writable = append(writable, fields[4])
		}
		if fields[4] == "/work" && (!slices.Contains(options, "nosuid") || !slices.Contains(options, "nodev")) {
			t.Errorf("/work is mounted %s", fields[5])
		}
	}
	// What bwrap mounts for itself: proc, whose writable parts are closed to
	// an unprivileged uid, and device nodes, which are files.
	writable = slices.DeleteFunc(writable, func(p string) bool {
		return p == "/proc" || strings.HasPrefix(p, "/dev/")
	})
	if !slices.Equal(writable, []string{"/work"}) {
		t.Errorf("writable are %q", writable)
	}
}

func TestNoDescriptorReachesTheSandbox(t *testing.T) {
	r, _ := live(t)
	// What a careless parent or a library leaves open for children.
	planted, err := unix.Open("/proc/self/status", unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(planted)
	for _, d := range lookFrom(t, r, false).Descriptors {
		fd, to, _ := strings.Cut(d, " ")
		n, err := strconv.Atoi(fd)
		if err != nil || n > 2 && to != "/proc/1/fd" && !strings.HasPrefix(to, "anon_inode:") {
			t.Errorf("descriptor %s leads to %s", fd, to)
		}
	}
}

func TestNetworkIsAPropertyOfTheRun(t *testing.T) {
	r, _ := live(t)
	host, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(host), ":") < 2 {
		t.Skip("not run: this host has no interface but its own loopback")
	}
	if s := lookFrom(t, r, true); len(s.Interfaces) < 2 {
		t.Errorf("with network there is %q", s.Interfaces)
	}
	if s := lookFrom(t, r, false); !slices.Equal(s.Interfaces, []string{"lo"}) {
		t.Errorf("without network there is %q", s.Interfaces)
	}
}

// bwrap maps the uid that it has. As root's child, the sandbox's 65532 would
// be the host's uid 0.
func TestTheSandboxIsNeverTheHostsRoot(t *testing.T) {
	want := os.Geteuid()
	if want == 0 {
		want = UID
	}
	var uids []string
	_ = endsEverything(t, "hang", nil, func(r *Runtime, cancel func()) {
		for _, pid := range below(os.Getpid(), r.store.Parent()) {
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			_, rest, _ := strings.Cut(string(status), "Uid:")
			line, _, _ := strings.Cut(rest, "\n")
			uids = append(uids, strings.Fields(line)...)
		}
		cancel()
	})
	if len(uids) < 4*5 {
		t.Errorf("%d uids were seen", len(uids))
	}
	for _, uid := range uids {
		if uid != strconv.Itoa(want) {
			t.Errorf("a process of the sandbox has the host's uid %s, want %d", uid, want)
		}
	}
}

func TestAnArtifactReachesTheSandboxThroughItsDirectoryAlone(t *testing.T) {
	r, _ := live(t)
	spec := verb("look")
	spec.Bundle.Entries = []wire.Entry{{Kind: wire.Archive, URL: wire.ArtifactURL}}
	spec.Bundle.Artifact = bundle.BytesArtifact([]byte("artifact"))
	if _, err := r.Run(t.Context(), spec); err != nil {
		t.Error(err)
	}
}
