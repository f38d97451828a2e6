package oom

import (
	"os"
	"path/filepath"
	"testing"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTheCountOfTheOwnCgroupIsRead(t *testing.T) {
	for version, c := range map[string]struct{ dir, file, content string }{
		"1": {"memory", "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"},
		"2": {"", "memory.events", "low 0\nhigh 0\nmax 9\noom 4\noom_kill 3\noom_group_kill 0\n"},
	} {
		root := t.TempDir()
		dir := filepath.Join(root, c.dir)
		write(t, filepath.Join(dir, "cgroup.procs"), "1\n17\n")
		write(t, filepath.Join(dir, c.file), c.content)
		if n, ok := Find(root, 1).Kills(); n != 3 || !ok {
			t.Errorf("version %s: %d %v", version, n, ok)
		}
		// It grows with the file.
		counter := Find(root, 17)
		write(t, filepath.Join(dir, c.file), "oom_kill 4\n")
		if n, ok := counter.Kills(); n != 4 || !ok {
			t.Errorf("version %s: %d %v", version, n, ok)
		}
		if _, ok := Find(root, 7).Kills(); ok {
			t.Errorf("version %s: somebody else's cgroup was counted", version)
		}
	}
}

func TestWhatDoesNotTellCountsNothing(t *testing.T) {
	root := t.TempDir()
	if _, ok := Find(root, 1).Kills(); ok {
		t.Error("an empty directory counts")
	}
	write(t, filepath.Join(root, "cgroup.procs"), "1\n")
	if _, ok := Find(root, 1).Kills(); ok {
		t.Error("a cgroup without a count counts, as the root of a machine has none")
	}
	write(t, filepath.Join(root, "memory.events"), "oom 4\noom_kill many\n")
	if _, ok := Find(root, 1).Kills(); ok {
		t.Error("a count that is no number counts")
	}
	if _, ok := (Counter{}).Kills(); ok {
		t.Error("no counter counts")
	}
}
