package vm

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// crunTests runs tests of the crun runtime in the machine, whose programs are crun
// and runc, and runsc where it is built.
func crunTests(t *testing.T, pattern string, options ...string) (output string, runsc bool) {
	t.Helper()
	long(t)
	options = slices.Concat(options,
		share("/in/tests", testBinary(t, "github.com/batleforc/batlehub-sandbox/runtime/crun")),
		share("/in/bin", bin(t)), share("/src", filepath.Join(root(t), "runtime/crun")))
	command := []string{"env", "BATLEHUB_TEST_AGENT=/in/bin/" + agent}
	if path := builtRunsc(); path != "" {
		options = append(options, share("/in/runsc", filepath.Dir(path))...)
		command = append(command, "BATLEHUB_TEST_RUNSC=/in/runsc/"+filepath.Base(path))
		runsc = true
	}
	output = boot(t, options, append(command, "sh", "-c",
		`cd /src && exec /in/tests/tests -test.v -test.timeout 25m -test.run "$0" 2>&1`, pattern)...)
	return output, runsc
}

// builtRunsc is a runsc that stands on this host already: building one takes
// minutes, and scripts/tool.sh does it.
func builtRunsc() string {
	if path, err := exec.LookPath(os.Getenv("BATLEHUB_TEST_RUNSC")); err == nil {
		return path
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	found, _ := filepath.Glob(filepath.Join(cache, "batlehub-sandbox/tools/runsc-*/runsc"))
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1]
}

// passed are the tests that a verbose output says have passed.
func passed(output string) map[string]bool {
	names := map[string]bool{}
	for line := range strings.Lines(output) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "--- PASS: "); ok {
			name, _, _ := strings.Cut(rest, " ")
			names[name] = true
		}
	}
	return names
}

// A test that was skipped shows nothing: those over a real program have to have
// run.
func TestTheCrunRuntimeOnCgroupV2(t *testing.T) {
	output, runsc := crunTests(t, ".")
	t.Log(output)
	got := passed(output)
	programs := []string{"crun", "runc"}
	if runsc {
		programs = append(programs, "runsc")
	}
	for _, name := range []string{
		"TestTheProbePassesOverEveryProgram", "TestASandboxIsWhatItsConfigurationSays", "TestNothingButTheScratchSpaceCanBeWritten",
		"TestAPackageIsUnpackedInsideAndScanned", "TestAScannerThatTakesTooMuchMemoryIsSaidToHave", "TestAScannerThatHangsIsARunTimeout",
		"TestACancelledSandboxLeavesNothing", "TestWhatAKilledWorkerLeavesIsSwept",
	} {
		for _, program := range programs {
			if !got[name+"/"+program] {
				t.Errorf("%s over %s has not passed", name, program)
			}
		}
	}
	if !got["TestARealCgroupHasTheRunsLimits"] {
		t.Error("TestARealCgroupHasTheRunsLimits has not passed")
	}
}

func TestTheCrunRuntimeFromAnInitramfs(t *testing.T) {
	output, _ := crunTests(t, "^(TestARootThatCantBeLeftIsNotPivotedFrom|TestTheProbePassesOverEveryProgram|TestAPackageIsUnpackedInsideAndScanned)$", "--ramdisk")
	t.Log(output)
	got := passed(output)
	for _, name := range []string{
		"TestARootThatCantBeLeftIsNotPivotedFrom", "TestTheProbePassesOverEveryProgram", "TestAPackageIsUnpackedInsideAndScanned",
	} {
		for _, program := range []string{"crun", "runc"} {
			if !got[name+"/"+program] {
				t.Errorf("%s over %s has not passed", name, program)
			}
		}
	}
}
