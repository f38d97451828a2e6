package seccomp_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// libseccompVersion is the library that the committed programs were made
// with. Another one may order its instructions otherwise.
const libseccompVersion = "2.5.4"

func TestTheProgramsAreWhatTheGeneratorMakesOfTheTable(t *testing.T) {
	generator := buildGenerator(t)
	version, err := exec.CommandContext(t.Context(), generator, "-version").Output()
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	run := exec.CommandContext(t.Context(), generator, "-out", ".", "-to", to)
	run.Env = append(os.Environ(), "GOWORK=off")
	if b, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	names := []string{"numbers_amd64_table.go", "numbers_arm64_table.go", "filter_amd64.bpf", "filter_arm64.bpf"}
	got := strings.TrimSpace(string(version))
	same := got == libseccompVersion
	if !same {
		names = names[:2]
	}
	for _, name := range names {
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(to, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what tools/seccompgen makes: run GOWORK=off go -C tools/seccompgen run .", name)
		}
	}
	if !same {
		t.Skipf("not run: the programs were made with libseccomp %s and this is %s; only the numbers were compared", libseccompVersion, got)
	}
}

func buildGenerator(t *testing.T) string {
	t.Helper()
	find(t, "gcc")
	probe := exec.CommandContext(t.Context(), "gcc", "-E", "-include", "seccomp.h", "-x", "c", "/dev/null")
	if err := probe.Run(); err != nil {
		t.Skip("not run: libseccomp's header is not installed (libseccomp-dev)")
	}
	out := filepath.Join(t.TempDir(), "seccompgen")
	goTool := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), find(t, "go"), args...)
		cmd.Dir = filepath.Join("..", "..", "tools", "seccompgen")
		cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=1")
		return cmd.CombinedOutput()
	}
	if b, err := goTool("mod", "download"); err != nil {
		t.Skipf("not run: the generator's modules can't be had: %s", b)
	}
	if b, err := goTool("build", "-buildvcs=false", "-o", out, "."); err != nil {
		t.Fatalf("building the generator: %v: %s", err, b)
	}
	return out
}
