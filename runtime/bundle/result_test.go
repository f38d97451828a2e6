package bundle_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

func status(n int) *int { return &n }

func resultOf(ending wire.Ending) *wire.Result {
	r := &wire.Result{Wire: wire.Version, Agent: "test", Ending: ending, Extraction: wire.Extraction{Notes: []wire.Note{}}}
	switch ending {
	case wire.EndExited:
		r.Status = status(3)
	case wire.EndRefused:
		r.Refusal = &wire.Refusal{Input: "pkg", Entry: "../x", Rule: "path"}
	case wire.EndSignaled:
		r.Signal = "SIGSEGV"
	}
	return r
}

func encode(t *testing.T, r *wire.Result, stdout string, key wire.SealKey) []byte {
	t.Helper()
	b, _, err := wire.EncodeResult(r, []byte(stdout), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTheAgentsResultIsRead(t *testing.T) {
	r := request(specOf(), "/work")
	d := create(t, newStore(t), r)
	if err := os.WriteFile(filepath.Join(d.Work(), "out.tar"), encode(t, resultOf(wire.EndExited), "findings", r.Manifest.SealKey), 0o600); err != nil {
		t.Fatal(err)
	}
	result, stdout, err := d.Result()
	if err != nil || *result.Status != 3 || string(stdout) != "findings" {
		t.Errorf("got %+v, %q, %v", result, stdout, err)
	}
}

// otherVersion is a sealed result of a later wire version, as a later agent
// would write it. It is made from one of this version, whose number is in the
// sealed bytes, so the seal must be made anew: the key's own text is enough.
func otherVersion(t *testing.T, key wire.SealKey) []byte {
	t.Helper()
	const from, to = `"wire":1`, `"wire":9`
	valid := encode(t, resultOf(wire.EndExited), "", key)
	tr := tar.NewReader(bytes.NewReader(valid))
	if _, err := tr.Next(); err != nil {
		t.Fatal(err)
	}
	var envelope struct {
		Seal   string          `json:"seal"`
		Result json.RawMessage `json:"result"`
	}
	if err := json.NewDecoder(tr).Decode(&envelope); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(envelope.Result, []byte(from)) {
		t.Fatalf("no %s in %s", from, envelope.Result)
	}
	return bytes.Replace(valid, []byte(from), []byte(to), 1)
}

func TestNothingThatAScannerPlantsIsTakenForAResult(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	key := wire.NewSealKey()
	valid := encode(t, resultOf(wire.EndExited), "findings", key)
	if err := os.WriteFile(outside, valid, 0o600); err != nil {
		t.Fatal(err)
	}
	write := func(b []byte) func(string) error {
		return func(p string) error { return os.WriteFile(p, b, 0o600) }
	}
	changed := bytes.Replace(valid, []byte("findings"), []byte("nofinding")[:8], 1)
	for _, c := range []struct {
		name  string
		plant func(string) error
		kind  sandbox.Kind
		code  sandbox.Code
	}{
		{"nothing", func(string) error { return nil }, sandbox.Crashed, sandbox.CodeNoResult},
		{"a symbolic link to a valid result", func(p string) error { return os.Symlink(outside, p) }, sandbox.ResultInvalid, sandbox.CodeForged},
		{"a symbolic link to itself", func(p string) error { return os.Symlink("out.tar", p) }, sandbox.ResultInvalid, sandbox.CodeForged},
		{"a hard link to a valid result", func(p string) error { return linkTo(valid, p) }, sandbox.ResultInvalid, sandbox.CodeForged},
		{"a FIFO", func(p string) error { return unix.Mkfifo(p, 0o600) }, sandbox.ResultInvalid, sandbox.CodeForged},
		{"a directory", func(p string) error { return os.Mkdir(p, 0o700) }, sandbox.ResultInvalid, sandbox.CodeForged},
		{"a socket", listenAt, sandbox.ResultInvalid, sandbox.CodeForged},
		{"a file over the cap", func(p string) error { return sparse(p, wire.ResultTarCap+1) }, sandbox.ResultInvalid, sandbox.CodeForged},
		{"a terabyte", func(p string) error { return sparse(p, 1<<40) }, sandbox.ResultInvalid, sandbox.CodeForged},
		{"an empty file", write(nil), sandbox.ResultInvalid, ""},
		{"zeros", write(make([]byte, 4096)), sandbox.ResultInvalid, ""},
		{"text", write([]byte("no findings")), sandbox.ResultInvalid, ""},
		{"a truncated result", write(valid[:len(valid)-1024]), sandbox.ResultInvalid, ""},
		{"a result with a tail", write(append(bytes.Clone(valid), 1)), sandbox.ResultInvalid, ""},
		{"a result with another stdout", write(changed), sandbox.ResultInvalid, sandbox.CodeForged},
		{"a result sealed with another key", write(encode(t, resultOf(wire.EndExited), "findings", wire.NewSealKey())), sandbox.ResultInvalid, sandbox.CodeForged},
		{"a result whose version was changed", write(otherVersion(t, key)), sandbox.ResultInvalid, sandbox.CodeForged},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request(specOf(), "/work")
			r.Manifest.SealKey = key
			d := create(t, newStore(t), r)
			if err := c.plant(filepath.Join(d.Work(), "out.tar")); err != nil {
				t.Fatal(err)
			}
			_, _, err := d.Result()
			if err == nil {
				t.Fatal("it was taken")
			}
			if e := bundle.ReadError(err); e.Kind != c.kind || e.Code != c.code {
				t.Errorf("got %v, want %s (%s)", e, c.kind, c.code)
			}
		})
	}
}

func linkTo(b []byte, p string) error {
	other := filepath.Join(filepath.Dir(p), "other")
	if err := os.WriteFile(other, b, 0o600); err != nil {
		return err
	}
	return os.Link(other, p)
}

func sparse(p string, size int64) error {
	f, err := os.OpenFile(p, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Truncate(size)
}

// listenAt binds a socket through a short name: an address has 108 bytes.
func listenAt(p string) error {
	dir, err := os.Open(filepath.Dir(p))
	if err != nil {
		return err
	}
	defer dir.Close()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Bind(fd, &unix.SockaddrUnix{Name: "/proc/self/fd/" + itoa(int(dir.Fd())) + "/out.tar"})
}

func itoa(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

func TestADeviceIsNoResult(t *testing.T) {
	d := create(t, newStore(t), request(specOf(), "/work"))
	if err := unix.Mknod(filepath.Join(d.Work(), "out.tar"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))); err != nil {
		t.Skipf("not run: a device can't be made here: %v", err)
	}
	if _, _, err := d.Result(); !errors.Is(err, bundle.ErrPlanted) {
		t.Errorf("got %v, want ErrPlanted", err)
	}
}

// The versions that met are what an operator needs, not that a document is
// strange.
func TestAnotherWireVersionSaysSo(t *testing.T) {
	e := bundle.ReadError(errors.Join(wire.ErrResult, &wire.VersionError{Got: 9}))
	if e.Kind != sandbox.Refused || !strings.Contains(e.Error(), "wire version 9") || !strings.Contains(e.Hint, "agent of this release") {
		t.Errorf("got %v", e)
	}
	_, e = bundle.Output(failed(wire.StageManifest, wire.CodeWireVersion, "wire version 9, this program speaks 1"), nil)
	if e.Kind != sandbox.Refused || e.Code != sandbox.CodeConfig || !strings.Contains(e.Error(), "wire version 9") {
		t.Errorf("got %v", e)
	}
}

func failed(stage wire.Stage, code, detail string) *wire.Result {
	r := resultOf(wire.EndFailed)
	r.Failure = &wire.Failure{Stage: stage, Code: code, Detail: detail}
	return r
}

func TestEveryEndingIsAnAnswerOrAnError(t *testing.T) {
	killed := resultOf(wire.EndSignaled)
	killed.OOMKilled = true
	starved := resultOf(wire.EndExited)
	starved.OOMKilled = true
	for _, c := range []struct {
		name   string
		result *wire.Result
		kind   sandbox.Kind
		code   sandbox.Code
	}{
		{"exited", resultOf(wire.EndExited), "", ""},
		{"refused", resultOf(wire.EndRefused), "", ""},
		{"signaled", resultOf(wire.EndSignaled), "", ""},
		{"a child killed for want of memory", starved, sandbox.Crashed, sandbox.CodeOOMKilled},
		{"killed for want of memory", killed, sandbox.Crashed, sandbox.CodeOOMKilled},
		{"timed out", resultOf(wire.EndTimedOut), sandbox.RunTimeout, ""},
		{"printed too much", resultOf(wire.EndStdoutCap), sandbox.ResultInvalid, sandbox.CodeStdoutCap},
		{"probed", resultOf(wire.EndProbed), sandbox.ResultInvalid, ""},
		{"disk full", failed(wire.StageExtract, wire.CodeNoSpace, "x"), sandbox.Crashed, sandbox.CodeNoSpace},
		{"command not found", failed(wire.StageLaunch, wire.CodeNotFound, "x"), sandbox.Crashed, sandbox.CodeCommandMissing},
		{"command not executable", failed(wire.StageLaunch, wire.CodeNotExecutable, "x"), sandbox.Crashed, sandbox.CodeCommandMissing},
		{"network open", failed(wire.StageGate, wire.CodeNetworkOpen, "x"), sandbox.Crashed, sandbox.CodeNetworkOpen},
		{"input too long", failed(wire.StageFetch, wire.CodeSizeMismatch, "x"), sandbox.Crashed, sandbox.CodeFetch},
		{"input too slow", failed(wire.StageFetch, wire.CodeTimeout, "x"), sandbox.StartTimeout, ""},
		{"input unreadable", failed(wire.StageFetch, wire.CodeIO, "x"), sandbox.Crashed, sandbox.CodeFetch},
		{"anything else", failed(wire.StageCollect, wire.CodeIO, "x"), sandbox.Crashed, sandbox.CodeInternal},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, e := bundle.Output(c.result, []byte("stdout"))
			if c.kind == "" {
				if e != nil || string(out.Stdout) != "stdout" || out.Result.Ending != c.result.Ending {
					t.Errorf("got %+v, %v, want an answer", out, e)
				}
				if (out.Refused() != nil) != (c.result.Refusal != nil) || (out.Status != nil) != (c.result.Status != nil) {
					t.Errorf("got refusal %v, status %v", out.Refused(), out.Status)
				}
				return
			}
			if sandbox.KindOf(e) != c.kind || sandbox.CodeOf(e) != c.code {
				t.Errorf("got %v, want %s (%s)", e, c.kind, c.code)
			}
		})
	}
}
