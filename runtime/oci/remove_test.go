package oci

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/testkit"
)

// remover is a runtime whose engine answers each `rm` with the next of the
// lines, and the last one from then on.
func remover(t *testing.T, lines ...string) (*Runtime, *host) {
	t.Helper()
	dir := testkit.Dir(t)
	var script strings.Builder
	fmt.Fprintf(&script, "#!/bin/sh\necho x >>%[1]s/asked\ncase $(wc -l <%[1]s/asked) in\n", dir)
	for i, line := range lines {
		pattern := fmt.Sprint(i + 1)
		if i == len(lines)-1 {
			pattern = "*"
		}
		fmt.Fprintf(&script, "%s) %s ;;\n", pattern, line)
	}
	script.WriteString("esac\n")
	binary := writeScript(t, dir, script.String())
	r, err := New(Config{Engine: Docker, Binary: binary, Image: "scanner:1", RunDir: filepath.Join(dir, "runs")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	r.removal = time.Second
	return r, &host{path: binary}
}

const (
	underWay = "echo 'Error response from daemon: removal of container 7 is already in progress' >&2; exit 1"
	noSuch   = "echo 'Error: No such container: 7' >&2; exit 1"
)

func TestARemovalThatIsUnderWayIsWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"gone meanwhile":   {[]string{underWay, underWay, noSuch}, ""},
		"removed at last":  {[]string{underWay, "exit 0"}, ""},
		"gone before":      {[]string{noSuch}, ""},
		"never over":       {[]string{underWay}, "is already in progress"},
		"refused outright": {[]string{"echo 'device or resource busy' >&2; exit 1", "exit 0"}, "device or resource busy"},
	} {
		r, h := remover(t, c.lines...)
		err := r.remove(t.Context(), h, "7")
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
