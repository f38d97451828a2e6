package seccomp_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// unchanged runs a program without and with the filter, and fails unless it
// did the same work both times, to the byte, and really had the filter.
func unchanged(t *testing.T, argv ...string) {
	t.Helper()
	native(t)
	run := func(cmd *exec.Cmd) (string, string) {
		t.Helper()
		var stderr strings.Builder
		cmd.Dir, cmd.Stderr = t.TempDir(), &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s%s", err, out, stderr.String())
		}
		return string(out), stderr.String()
	}
	plain, _ := run(exec.CommandContext(t.Context(), argv[0], argv[1:]...))
	filtered, status := run(underStage(t.Context(), t, "stage-exec", argv...))
	if !strings.Contains(status, "Seccomp:\t2") {
		t.Errorf("the program says %q, so it had no filter", status)
	}
	if filtered != plain {
		t.Errorf("with the filter:\n%s\nwithout:\n%s", filtered, plain)
	}
	if !strings.HasSuffix(plain, "done\n") || strings.Count(plain, "\n") < 6 {
		t.Errorf("the program did not do its work:\n%s", plain)
	}
}

// script is the absolute path of a file in testdata: the programs run elsewhere.
func script(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAGlibcProgramRunsUnchanged(t *testing.T) {
	unchanged(t, compileC(t, "gcc", "real.c"))
}

func TestAMuslProgramRunsUnchanged(t *testing.T) {
	unchanged(t, compileC(t, "musl-gcc", "real.c", "-static"))
}

func TestAGoProgramRunsUnchanged(t *testing.T) {
	program := filepath.Join(t.TempDir(), "realgo")
	build := exec.CommandContext(t.Context(), find(t, "go"), "build", "-buildvcs=false", "-o", program, "./testdata/realgo")
	if b, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	unchanged(t, program)
}

func TestANodeProgramRunsUnchanged(t *testing.T) {
	unchanged(t, find(t, "node"), script(t, "real.js"))
}

func TestAPythonProgramRunsUnchanged(t *testing.T) {
	unchanged(t, find(t, "python3"), script(t, "real.py"))
}
