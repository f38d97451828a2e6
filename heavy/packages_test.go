package heavy

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/lab"
	"github.com/batleforc/batlehub-sandbox/heavy/internal/listing"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// Real packages unpack to the same tree as their ecosystem's own extractor
// makes of them, on every runtime. Modes are not compared: the agent drops
// them. Every other difference is listed in differences with its reason.
func TestRealPackagesExtractLikeTheirReferenceExtractor(t *testing.T) {
	l := theLab(t)
	all := runtimes(t, l)
	var compared []string
	for _, p := range packageList(t) {
		t.Run(p.String(), func(t *testing.T) {
			archive := fetch(t, p)
			want := reference(t, p, archive)
			for name, rt := range all {
				got := extracted(t, l, name, rt, p, archive)
				compare(t, p, name, want, got)
			}
			if !t.Failed() {
				compared = append(compared, p.ecosystem)
			}
		})
	}
	slices.Sort(compared)
	t.Logf("%d packages of %d ecosystems extracted like their reference on %d runtimes", len(compared), len(slices.Compact(slices.Clone(compared))), len(all))
}

// differences are the lines in which a real package may differ, each with its
// reason: reference line (or "") to our line (or "").
var differences = map[string]map[string]string{
	// The package's own link points at the host's clock setting. An absolute
	// link is never made; the agent counts and names it.
	"deb/tzdata": {`link "usr/share/zoneinfo/localtime" "/etc/localtime"`: ""},
}

// reference lists the tree that GNU tar, unzip or dpkg-deb makes.
func reference(t *testing.T, p pkg, archive string) []string {
	t.Helper()
	dir := t.TempDir()
	argv := map[string][]string{
		"npm":   {"tar", "-xzf", archive, "-C", dir, "--no-same-owner"},
		"go":    {"unzip", "-q", archive, "-d", dir},
		"wheel": {"unzip", "-q", archive, "-d", dir},
		"jar":   {"unzip", "-q", archive, "-d", dir},
		"deb":   {"dpkg-deb", "-x", archive, dir},
	}[p.ecosystem]
	if _, err := exec.LookPath(argv[0]); err != nil {
		t.Skipf("not run: no %s on this host", argv[0])
	}
	if _, err := command(t, dir, argv[0], argv[1:]...); err != nil {
		t.Fatal(err)
	}
	if p.ecosystem == "deb" {
		if _, err := command(t, dir, "dpkg-deb", "-e", archive, filepath.Join(dir, "DEBIAN")); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := listing.Write(&b, dir); err != nil {
		t.Fatal(err)
	}
	return lines(b.Bytes())
}

// layout asks for a deb's inner archives where dpkg-deb puts them.
func layout(p pkg) []wire.Nested {
	if p.ecosystem != "deb" {
		return nil
	}
	return []wire.Nested{
		{Member: "data.tar*", Into: wire.RelPath{}},
		{Member: "control.tar*", Into: wire.MustRelPath("DEBIAN")},
	}
}

// extracted lists the tree that a run of rt makes, from inside.
func extracted(t *testing.T, l *lab.Lab, name string, rt sandbox.Runtime, p pkg, archive string) []string {
	t.Helper()
	spec, err := lab.Spec("pkg", archive, layout(p), lister(l, name)...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := rt.Run(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if refusal := out.Refused(); refusal != nil {
		t.Fatalf("%s refused %s: %+v", name, p, *refusal)
	}
	if out.Status == nil || *out.Status != 0 {
		t.Fatalf("%s: ending %s: %s", name, out.Result.Ending, out.StderrTail)
	}
	list := lines(out.Stdout)
	if p.ecosystem == "deb" {
		// The outer archive's members stay beside what they hold.
		list = slices.DeleteFunc(list, func(s string) bool {
			return strings.HasPrefix(s, `file "data.tar`) || strings.HasPrefix(s, `file "control.tar`) || strings.HasPrefix(s, `file "debian-binary"`)
		})
	}
	return list
}

func lines(b []byte) []string { return strings.Split(strings.TrimSpace(string(b)), "\n") }

func compare(t *testing.T, p pkg, runtime string, want, got []string) {
	t.Helper()
	slices.Sort(want)
	slices.Sort(got)
	explained := differences[p.String()]
	for _, line := range want {
		if _, found := slices.BinarySearch(got, line); !found {
			if instead, ok := explained[line]; !ok || instead != "" && !slices.Contains(got, instead) {
				t.Errorf("%s: missing %s", runtime, line)
			}
		}
	}
	for _, line := range got {
		if _, found := slices.BinarySearch(want, line); !found && !isExplained(explained, line) {
			t.Errorf("%s: beyond the reference: %s", runtime, line)
		}
	}
	if os.Getenv("HEAVY_VERBOSE") != "" {
		fmt.Printf("%s on %s: %d paths\n", p, runtime, len(got))
	}
}

func isExplained(explained map[string]string, line string) bool {
	for _, ours := range explained {
		if ours == line {
			return true
		}
	}
	return false
}
