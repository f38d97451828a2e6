package reap

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestAProcesssNameCanNotHideItsParent(t *testing.T) {
	for stat, want := range map[string]int{
		"12 (sh) S 7 12 12 0":            7,
		"12 (a) S 99 (b) R 8 1 1":        8,
		"12 (with space and )) Z 9 1 1":  9,
		"12 (\n) S 1 (x) S 3 0":          3,
		"12 sh S 7":                      -1,
		"12 (sh)":                        -1,
		"12 (sh) S":                      -1,
		"12 (sh) S x":                    -1,
		"":                               -1,
		"12 (12 (sh) S 5 12) S 6 12 12 ": 6,
	} {
		got, ok := parentOf(stat)
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%q: %d, want %d", stat, got, want)
		}
	}
}

func TestOnlyDescendantsAreBelow(t *testing.T) {
	m := map[int]int{1: 0, 2: 1, 10: 2, 11: 10, 12: 11, 20: 1, 21: 20, 10_000: 10, 30: 31, 31: 30, 40: 40}
	got := below(10, m)
	slices.Sort(got)
	if !slices.Equal(got, []int{11, 12, 10_000}) {
		t.Errorf("%v", got)
	}
	if got := below(99, m); len(got) != 0 {
		t.Errorf("%v below a process that has no child", got)
	}
}

func TestProcessesAreReadFromProc(t *testing.T) {
	proc := t.TempDir()
	for name, stat := range map[string]string{"5": "5 (x) S 4 0", "6": "6 (y", "self": "7 (z) S 1 0"} {
		if err := os.Mkdir(filepath.Join(proc, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, name, "stat"), []byte(stat), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if m := parents(proc); len(m) != 1 || m[5] != 4 {
		t.Errorf("%v", m)
	}
	if m := parents("/proc"); m[os.Getpid()] != os.Getppid() {
		t.Errorf("this process's parent is %d, not %d", m[os.Getpid()], os.Getppid())
	}
	if m := parents("/no/such/proc"); len(m) != 0 {
		t.Errorf("%v", m)
	}
}

func TestTheWholeNamespaceIsOnlyPID1sToEnd(t *testing.T) {
	if IsInit() {
		t.Skip("not run: this test is pid 1")
	}
	// Would end this process's session, and more, if it did anything.
	Namespace()
}
