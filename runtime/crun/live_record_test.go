package crun

import (
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
