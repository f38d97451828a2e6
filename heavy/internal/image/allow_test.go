package image

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func list(t *testing.T, text string) *Allowlist {
	t.Helper()
	name := filepath.Join(t.TempDir(), "allow.txt")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := ReadAllowlist(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

const text = `
dir /work 1777  # the tmpfs takes its mode from here
link /tmp work/tmp
file /usr/local/bin/* 0755
any /opt/**
`

func good() []File {
	return []File{
		{Path: "/opt/data", Type: "file", Mode: "0600"},
		{Path: "/tmp", Type: "link", Mode: "0777", Target: "work/tmp"},
		{Path: "/usr/local/bin/scanner", Type: "file", Mode: "0755"},
		{Path: "/work", Type: "dir", Mode: "1777"},
	}
}

func TestAnImageWithWhatIsListedIsInOrder(t *testing.T) {
	if faults := list(t, text).Check(good()); len(faults) != 0 {
		t.Errorf("faults: %q", faults)
	}
}

func TestEachDifferenceFromTheListIsNamed(t *testing.T) {
	for want, change := range map[string]func([]File) []File{
		"/etc/passwd is on no list":              func(f []File) []File { return append(f, File{Path: "/etc/passwd", Type: "file", Mode: "0644"}) },
		"/usr/local/bin/sh is a shell":           func(f []File) []File { return append(f, File{Path: "/usr/local/bin/sh", Type: "file", Mode: "0755"}) },
		"/opt/bin/apt-get is a shell, a package": func(f []File) []File { return append(f, File{Path: "/opt/bin/apt-get", Type: "file", Mode: "0755"}) },
		"/opt/busybox is a shell":                func(f []File) []File { return append(f, File{Path: "/opt/busybox", Type: "link", Mode: "0777"}) },
		"/usr/local/bin/sandboxctl is a shell, a p": func(f []File) []File {
			return append(f, File{Path: "/usr/local/bin/sandboxctl", Type: "file", Mode: "0755"})
		},
		"/opt/su is set-id":                func(f []File) []File { return append(f, File{Path: "/opt/su", Type: "file", Mode: "4755"}) },
		"/opt/null is a other":             func(f []File) []File { return append(f, File{Path: "/opt/null", Type: "other", Mode: "0666"}) },
		"/work is missing":                 func(f []File) []File { return f[:3] },
		"/work is a dir with mode 0755":    func(f []File) []File { f[3].Mode = "0755"; return f },
		"/tmp is a link with mode":         func(f []File) []File { f[1].Target = "/host"; return f },
		"/opt/data belongs to 65532:65532": func(f []File) []File { f[0].UID, f[0].GID = 65532, 65532; return f },
	} {
		faults := list(t, text).Check(change(good()))
		if len(faults) != 1 || !strings.HasPrefix(faults[0], want) {
			t.Errorf("faults %q, want one that begins with %q", faults, want)
		}
	}
}

func TestALineThatIsNoRuleIsRefused(t *testing.T) {
	for _, text := range []string{"file /usr/bin/x", "every /usr", "any /a b"} {
		name := filepath.Join(t.TempDir(), "allow.txt")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadAllowlist(name); err == nil {
			t.Errorf("%q was taken for a rule", text)
		}
	}
}
