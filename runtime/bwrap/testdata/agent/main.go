// Command agent plays an agent in the tests of bwrap: it does what the first
// argument of its manifest says, and shows what it sees.
package main

import (
	"archive/tar"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/batleforc/batlehub-sandbox/wire"
)

func main() {
	if os.Args[0] == "child-of-the-sandbox" {
		wait()
	}
	b, err := os.ReadFile("/work/manifest.json")
	if err != nil {
		os.Exit(65)
	}
	m, err := wire.ParseManifest(b)
	if err != nil {
		os.Exit(65)
	}
	if m.Probe != nil {
		answerProbe(m)
		return
	}
	if m.Argv[0] == "hang-start" {
		wait()
	}
	if err := os.Remove("/work/manifest.json"); err != nil {
		os.Exit(65)
	}
	os.Exit(play(m))
}

func play(m *wire.Manifest) int {
	switch m.Argv[0] {
	case "answer":
		return store(m, strings.Join(m.Argv[1:], " "))
	case "look":
		return store(m, look())
	case "silent":
		return 0
	case "fail":
		return 66
	case "fail-with-result":
		store(m, "a result all the same")
		return 3
	case "die-with-result":
		store(m, "a result all the same")
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		// A pid namespace's first process can't kill itself.
		return 137
	case "flood":
		chunk := strings.Repeat("not an answer ", 1<<16)
		for range 16 {
			_, _ = os.Stdout.WriteString(chunk)
			_, _ = os.Stderr.WriteString(chunk)
		}
		return store(m, "the answer")
	case "hang":
		family()
		wait()
	case "mess":
		return mess(m)
	case "fill":
		return fill()
	}
	return 67
}

func store(m *wire.Manifest, stdout string) int {
	zero := 0
	r := &wire.Result{Wire: wire.Version, Agent: "fake", Ending: wire.EndExited, Status: &zero, Extraction: wire.Extraction{Notes: []wire.Note{}}}
	return write(m, r, stdout)
}

func write(m *wire.Manifest, r *wire.Result, stdout string) int {
	b, _, err := wire.EncodeResult(r, []byte(stdout), m.SealKey, nil)
	if err != nil {
		return 67
	}
	if err := os.WriteFile("/work/out.tar", b, 0o600); err != nil {
		return 66
	}
	return 0
}

// writeLater writes a result of wire version 9, sealed as that version seals.
func writeLater(m *wire.Manifest) int {
	body := []byte(`{"wire":9,"agent":"later","something_new":true}`)
	mac := hmac.New(sha256.New, m.SealKey[:])
	mac.Write([]byte("batlehub-sandbox result v1\x00"))
	for _, part := range [][]byte{body, nil} {
		_ = binary.Write(mac, binary.BigEndian, uint64(len(part)))
		mac.Write(part)
	}
	document := fmt.Appendf(nil, `{"seal":"%x","result":%s}`, mac.Sum(nil), body)
	f, err := os.OpenFile("/work/out.tar", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 66
	}
	w := tar.NewWriter(f)
	for _, member := range []struct {
		name    string
		content []byte
	}{{"result.json", document}, {"stdout", nil}} {
		if w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: member.name, Size: int64(len(member.content)), Mode: 0o644}) != nil {
			return 66
		}
		if _, err := w.Write(member.content); err != nil {
			return 66
		}
	}
	if w.Close() != nil || f.Close() != nil {
		return 66
	}
	return 0
}

func answerProbe(m *wire.Manifest) {
	if len(m.Probe.Commands) > 0 {
		switch m.Probe.Commands[0] {
		case "older-release":
			r := &wire.Result{
				Wire: wire.Version, Agent: "fake", Ending: wire.EndFailed, Extraction: wire.Extraction{Notes: []wire.Note{}},
				Failure: &wire.Failure{Stage: wire.StageManifest, Code: wire.CodeWireVersion, Detail: "wire version 9, this program speaks 1"},
			}
			os.Exit(write(m, r, ""))
		case "later-release":
			os.Exit(writeLater(m))
		}
	}
	r := &wire.Result{
		Wire: wire.Version, Agent: "fake", Ending: wire.EndProbed, Extraction: wire.Extraction{Notes: []wire.Note{}},
		Probe: &wire.ProbeResult{UID: os.Geteuid(), Commands: []wire.CommandReport{}},
	}
	for _, id := range wire.Assertions[1:] {
		v := wire.Verdict{ID: id, Outcome: wire.Pass, Detail: "holds"}
		switch {
		case len(m.Probe.Commands) > 0 && m.Probe.Commands[0] == "fail-"+string(id):
			v.Outcome, v.Detail = wire.Fail, "was told to fail"
		case len(m.Probe.Commands) > 0 && m.Probe.Commands[0] == "omit-"+string(id):
			continue
		case id == wire.AssertMemory && !m.Probe.MemoryWall:
			v.Outcome = wire.NotClaimed
		}
		r.Probe.Verdicts = append(r.Probe.Verdicts, v)
	}
	os.Exit(write(m, r, ""))
}

// sight is what an agent sees of its sandbox.
type sight struct {
	UID, GID, PID   int
	Environ         []string
	Args            []string
	Root            []string
	Mounts          string
	Status          string
	UIDMap          string
	Hostname        string
	Dir             string
	Descriptors     []string
	Session         bool
	RootOpen        string
	Sysctl          string
	NewUserns       string
	Interfaces      []string
	ManifestNetwork bool
}

func look() string {
	s := sight{UID: os.Geteuid(), GID: os.Getegid(), PID: os.Getpid(), Environ: os.Environ(), Args: os.Args}
	s.Root = list("/")
	s.Interfaces = list("/sys/class/net")
	s.Mounts = read("/proc/self/mountinfo")
	s.Status = read("/proc/self/status")
	s.UIDMap = read("/proc/self/uid_map")
	s.Hostname, _ = os.Hostname()
	s.Dir, _ = os.Getwd()
	for _, fd := range list("/proc/self/fd") {
		if to, err := os.Readlink("/proc/self/fd/" + fd); err == nil {
			s.Descriptors = append(s.Descriptors, fd+" "+to)
		}
	}
	s.Session = session()
	s.RootOpen = openForWriting("/usr/bin/.probe")
	s.Sysctl = openForWriting("/proc/sys/kernel/core_pattern")
	s.NewUserns = newUserns()
	dev, _ := os.ReadFile("/proc/net/dev")
	s.Interfaces = nil
	for line := range strings.Lines(string(dev)) {
		if name, _, ok := strings.Cut(line, ":"); ok {
			s.Interfaces = append(s.Interfaces, strings.TrimSpace(name))
		}
	}
	b, _ := json.Marshal(s)
	return string(b)
}

func list(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func read(name string) string {
	b, _ := os.ReadFile(name)
	return string(b)
}

func session() bool {
	sid, _, _ := syscall.RawSyscall(syscall.SYS_GETSID, 0, 0, 0)
	return int(sid) == os.Getpid()
}

func openForWriting(name string) string {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err.Error()
	}
	f.Close()
	return "opened"
}

func newUserns() string {
	cmd := exec.Command("/proc/self/exe", "nothing")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER}
	if err := cmd.Start(); err != nil {
		return err.Error()
	}
	_ = cmd.Wait()
	return "made"
}

// family leaves processes in sessions of their own.
func family() {
	for range 3 {
		cmd := exec.Command("/proc/self/exe")
		cmd.Args = []string{"child-of-the-sandbox"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			os.Exit(67)
		}
	}
}

// mess leaves what is hard to remove.
func mess(m *wire.Manifest) int {
	deep := filepath.Join("/work", strings.Repeat("d/", 200))
	if os.MkdirAll(deep, 0o700) != nil || os.Symlink("/", "/work/root") != nil {
		return 67
	}
	for i := range 500 {
		if os.WriteFile(fmt.Sprintf("/work/d/file-%d", i), nil, 0) != nil {
			return 67
		}
	}
	if os.Chmod("/work/d/d", 0) != nil || os.Chmod("/work/d", 0) != nil {
		return 67
	}
	return store(m, "")
}

// fill leaves no space for a result.
func fill() int {
	f, err := os.OpenFile("/work/filler", os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return 67
	}
	for block := make([]byte, 4096); ; {
		if _, err := f.Write(block); err != nil {
			return 66
		}
	}
}

func wait() {
	for {
		_ = syscall.Pause()
	}
}
