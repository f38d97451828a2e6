package heavy

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/lab"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// refused is one call that the filter refused, and how often.
type refused struct {
	Call  string `json:"call"`
	Errno string `json:"errno"`
	// Argument is the one that matters, as strace has it.
	Argument string `json:"argument"`
	Count    int    `json:"count"`
}

func (r refused) String() string {
	return fmt.Sprintf("%s(%s) = %s, %d times", r.Call, r.Argument, r.Errno, r.Count)
}

// trace is what the scanner's processes tried under the filter.
type trace struct {
	// count is how many calls they made, failed what was answered with an
	// errno that the filter uses.
	count  int
	failed map[refused]int
}

// refusedBy leaves what the filter's table explains: a call in it with its
// answer, and a number that strace does not know. The rest was refused by
// the kernel.
func (tr *trace) refusedBy(table map[string][]string) []refused {
	all := []refused{}
	for r, n := range tr.failed {
		unknown := strings.HasPrefix(r.Call, "syscall_") && r.Errno == "ENOSYS"
		if unknown || slices.Contains(table[r.Call], r.Errno) {
			r.Count = n
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b refused) int { return strings.Compare(a.Call+a.Argument, b.Call+b.Argument) })
	return all
}

// straceOf makes a program that starts another one under strace, with one file
// per process in dir.
func straceOf(t *testing.T, strace, program, dir string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(openDir(t), filepath.Base(program))
	script := fmt.Sprintf(`#!/bin/sh
# Only what starts a sandbox is traced: not an engine's other commands.
case ${1-} in --unshare-*|--args|run) exec %[1]s -ff -qq --decode-pids=pidns -s 64 -o %[3]s/t %[2]s "$@" ;; esac
exec %[2]s "$@"
`, strace, path, dir)
	if err := os.WriteFile(name, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

var (
	callPattern  = regexp.MustCompile(`^([a-z0-9_]+)\((.*)\)\s+= (-?[0-9a-fx?]+)(?: ([A-Z]+))?(?: \([^)]*\))?(?: /\* ([0-9]+) in strace's PID NS \*/)?`)
	argsPattern  = regexp.MustCompile(`[^,({]+`)
	argumentCall = map[string]int{"ioctl": 1, "clone": 1}
)

// readTrace follows the filter: a process is looked at from where it installed
// it and became the scanner, and all that it started from then on. An engine
// gives the agent a profile of its own before that, which is not looked at.
func readTrace(t *testing.T, dir string) *trace {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "t.*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("strace wrote nothing: %v", err)
	}
	tr := &trace{failed: map[refused]int{}}
	var queue []string
	for _, f := range files {
		if children := tr.file(t, f, false); children != nil {
			queue = append(queue, children...)
		}
	}
	for seen := map[string]bool{}; len(queue) > 0; queue = queue[1:] {
		if pid := queue[0]; !seen[pid] {
			seen[pid] = true
			queue = append(queue, tr.file(t, filepath.Join(dir, "t."+pid), true)...)
		}
	}
	if tr.count == 0 {
		t.Fatal("no process installed the filter")
	}
	return tr
}

// file counts one process's calls from where the filter holds, and returns the
// pids that it started.
func (tr *trace) file(t *testing.T, name string, filtered bool) (children []string) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	installed := false
	lines := bufio.NewScanner(f)
	for lines.Buffer(nil, 1<<20); lines.Scan(); {
		m := callPattern.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		call, args, result, errno, pid := m[1], m[2], m[3], m[4], m[5]
		if call == "seccomp" && strings.HasPrefix(args, "SECCOMP_SET_MODE_FILTER") && result == "0" {
			installed = true
			continue
		}
		if call == "execve" && result == "0" && installed {
			installed, filtered = false, filtered || !strings.Contains(args, "batlehub-sandbox")
		}
		if !filtered {
			continue
		}
		tr.count++
		if (call == "clone" || call == "fork" || call == "vfork") && !strings.HasPrefix(result, "-") {
			if pid == "" {
				pid = result
			}
			children = append(children, pid)
		}
		if errno == "EPERM" || errno == "ENOSYS" {
			tr.failed[refused{Call: call, Errno: errno, Argument: argument(call, args)}]++
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return children
}

// argument is the argument of a call that says what it was for.
func argument(call, args string) string {
	parts := argsPattern.FindAllString(args, -1)
	if i := argumentCall[call]; i < len(parts) {
		return strings.TrimSpace(parts[i])
	}
	return ""
}

var (
	idPattern   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	timePattern = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|[+-][0-9:]+)`)
)

func normalized(b []byte) []string {
	b = timePattern.ReplaceAll(idPattern.ReplaceAll(b, []byte("ID")), []byte("TIME"))
	lines := strings.Split(string(b), "\n")
	for i := range lines {
		lines[i] = strings.TrimSuffix(strings.TrimSpace(lines[i]), ",")
	}
	slices.Sort(lines)
	return lines
}

func filterSpec(t *testing.T, c filterCase, artifact string) sandbox.RunSpec {
	t.Helper()
	spec, err := lab.Spec("filter", artifact, nil, c.argv...)
	if err != nil {
		t.Fatal(err)
	}
	spec.Label.Scanner = c.room
	spec.Timeout, spec.StartTimeout = filterTimeout, filterTimeout
	spec.Limits = filterLimits
	return spec
}

// filterArtifact is a package in which each of the scanners finds something.
// What is planted is put together here, so that no scan of this repository
// finds it.
func filterArtifact(t *testing.T) string {
	t.Helper()
	files := map[string]string{
		"package.json":      `{"name":"planted","version":"1.0.0","license":"MIT","dependencies":{"left-pad":"1.3.0"}}`,
		"package-lock.json": `{"name":"planted","version":"1.0.0","lockfileVersion":3,"packages":{"":{"name":"planted","version":"1.0.0","dependencies":{"left-pad":"1.3.0"}},"node_modules/left-pad":{"version":"1.3.0","license":"WTFPL"}}}`,
		"LICENSE":           mitText,
		"Dockerfile":        "FROM debian:latest\nUSER root\nADD . /srv\nRUN sudo id\n",
		"key.pem":           "-----BEGIN RSA " + "PRIVATE KEY-----\n" + strings.Repeat("MIIEowIBAAKCAQEAxL9QdUwXo2VhQ1b7kq5T8nPz3mWcR0sYfJgHtNeKiB4vDuCa\n", 12) + "-----END RSA " + "PRIVATE KEY-----\n",
		"index.js":          "eval(" + "atob('YWxlcnQoMSk='))\n",
		"marker.txt":        "BATLEHUB-SANDBOX-" + "TEST-MARKER\n",
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(openDir(t), "planted.tgz")
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

const mitText = `MIT License

Copyright (c) 2026 Planted

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
`

// openDir is a directory that a sandbox's user may use too.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "filter-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

func needBwrap(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		t.Skip("not run: no bwrap here")
	}
}

func kernelRelease(t *testing.T) string {
	t.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	return unix.ByteSliceToString(u.Release[:])
}
