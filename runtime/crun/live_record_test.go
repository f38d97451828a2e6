package crun

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

func TestAScannersOwnProfileIsRecordedAndThenHolds(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("not run: there is no strace here")
	}
	for _, f := range []Flavour{Runc, Crun} {
		t.Run(string(f), func(t *testing.T) {
			r := live(t, string(f), nil)
			spec := scan("cat", "/proc/self/comm")
			spec.StartTimeout, spec.Timeout = time.Minute, time.Minute
			recording, err := r.Record(t.Context(), spec, "strace")
			if err != nil || string(recording.Output.Stdout) != "cat\n" || len(recording.Calls) < 20 {
				t.Fatalf("got %+v, %v", recording, err)
			}
			file, pin, err := recording.Profile()
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(testkit.Dir(t), "profile.json")
			put(t, path, string(file))
			r.config.Profiles = map[string]Profile{"scanner": {Path: path, SHA256: pin}}
			out, err := r.Run(t.Context(), spec)
			if err != nil || string(out.Stdout) != "cat\n" {
				t.Fatalf("under its profile: %q, %v", out.Stdout, err)
			}
			// touch makes calls that cat does not.
			_, err = r.Run(t.Context(), scan("touch", "/work/x"))
			if e := asFault(t, err); e.Kind != sandbox.Crashed || e.Signal != "SIGSYS" {
				t.Errorf("beyond its profile: %+v", e)
			}
			put(t, path, string(file)+" ")
			_, err = r.Run(t.Context(), spec)
			if e := asFault(t, err); e.Kind != sandbox.Refused || e.Code != sandbox.CodeConfig || !strings.Contains(e.Error(), "pinned") {
				t.Errorf("another file: %v", err)
			}
		})
	}
}

// strace is a program that stands in for strace.
func strace(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(testkit.Dir(t), "strace")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestHowStraceEndedIsSaid(t *testing.T) {
	real, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("not run: there is no strace here")
	}
	r := live(t, "runc", nil)
	for name, c := range map[string]struct{ script, want string }{
		"killed on its way": {real + ` "$@" & sleep 2; kill -KILL $!; kill -KILL $$`, "recording the run: strace was killed by SIGKILL before the run's end; record again"},
		"not attached":      {"echo attach: Operation not permitted >&2; exit 1", `recording the run: strace exited 1: "attach: Operation not permitted"`},
		"ended at once":     {"exit 0", "recording the run: strace ended before the run had begun"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := scan("sleep", "20")
			_, err := r.Record(t.Context(), spec, strace(t, c.script))
			if e := asFault(t, err); e.Kind != sandbox.Crashed || !strings.Contains(e.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// What is traced is read as it comes, and no file grows with it.
func TestATraceWithoutAnEndFillsNoDisk(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("not run: there is no strace here")
	}
	r := live(t, "runc", nil)
	spec := scan("tail", "---disable-inotify", "-n", "0", "-s", "0", "-f", "/usr/bin/cat") // asks until it is killed
	spec.Timeout = 5 * time.Second
	recorded := make(chan error, 1)
	go func() {
		_, err := r.Record(t.Context(), spec, "strace")
		recorded <- err
	}()
	const most = 1 << 20
	for {
		select {
		case err := <-recorded:
			if sandbox.KindOf(err) != sandbox.RunTimeout {
				t.Errorf("got %v, want its timeout", err)
			}
			return
		case <-time.After(50 * time.Millisecond):
			if n := sizeOf(r.bundlesDir(Runc)); n > most {
				t.Fatalf("%d bytes are below the bundles", n)
			}
		}
	}
}

// sizeOf is how many bytes the files below a directory have.
func sizeOf(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // it went away
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n
}
