package oci

import (
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// What the engines list, recorded from podman 4.3.1 and docker 20.10.24.
func TestWhatEnginesListIsRead(t *testing.T) {
	made := time.Unix(1795996800, 0)
	for name, text := range map[string]string{
		"podman ps":         `[{"Created":1795996800,"Id":"0a1b","Names":["batlehub-sbx-j-s-1"],"Labels":{"io.batlehub.worker":"w","io.batlehub.deadline":"1795996900"},"State":"running"}]`,
		"podman network ls": `[{"name":"batlehub-sbx-j-s-1","id":"0a1b","driver":"bridge","created":"2026-11-30T00:00:00Z","labels":{"io.batlehub.worker":"w","io.batlehub.deadline":"1795996900"},"subnets":[]}]`,
		"docker ps":         `{"CreatedAt":"2026-11-30 00:00:00 +0000 UTC","ID":"0a1b","Labels":"io.batlehub.deadline=1795996900,io.batlehub.worker=w","Names":"batlehub-sbx-j-s-1","State":"running"}` + "\n",
		"docker network ls": `{"CreatedAt":"2026-11-30 00:00:00.5 +0000 UTC","Driver":"bridge","ID":"0a1b","Labels":"io.batlehub.worker=w,io.batlehub.deadline=1795996900","Name":"batlehub-sbx-j-s-1"}` + "\n",
	} {
		rows, err := parseRows(text)
		if err != nil || len(rows) != 1 {
			t.Errorf("%s: got %v, %v", name, rows, err)
			continue
		}
		l := rows[0].labelled()
		if l.id != "0a1b" || l.name != "batlehub-sbx-j-s-1" || l.worker != "w" || l.deadline.Unix() != 1795996900 || l.created.Sub(made).Abs() > time.Second {
			t.Errorf("%s: got %+v", name, l)
		}
	}
	for _, none := range []string{"", "[]", "\n"} {
		if rows, err := parseRows(none); err != nil || len(rows) != 0 {
			t.Errorf("%q: got %v, %v", none, rows, err)
		}
	}
}

func TestTwoQuestionsDecideWhatIsAnOrphan(t *testing.T) {
	past := time.Now().Add(-time.Hour)
	for _, c := range []struct {
		worker   string
		deadline time.Time
		policy   sandbox.SweepPolicy
		want     bool
	}{
		{"w", time.Now().Add(time.Hour), sandbox.SweepPolicy{Worker: "w"}, true},
		{"x", past, sandbox.SweepPolicy{Worker: "w"}, false},
		{"x", past, sandbox.SweepPolicy{Worker: "w", OlderThan: 2 * time.Hour}, false},
		{"x", past, sandbox.SweepPolicy{Worker: "w", OlderThan: time.Minute}, true},
		{"", past, sandbox.SweepPolicy{}, false},
	} {
		if got := (labelled{worker: c.worker, deadline: c.deadline}).isOrphan(c.policy); got != c.want {
			t.Errorf("%+v: got %t", c, got)
		}
	}
}

func TestVersionsAreReadAndCompared(t *testing.T) {
	for s, want := range map[string]Version{
		"podman version 4.3.1\n": {4, 3}, "20.10.24+dfsg1": {20, 10}, "28.2.2": {28, 2}, "podman version 5.4.2-dev": {5, 4},
	} {
		if got, ok := ParseVersion(s); !ok || got != want {
			t.Errorf("%q is %v, %t", s, got, ok)
		}
	}
	if _, ok := ParseVersion("no version"); ok {
		t.Error("a version was found in none")
	}
	if !(Version{4, 2}).Less(MinVersions[Podman]) || (Version{28, 0}).Less(MinVersions[Docker]) {
		t.Error("versions compare wrongly")
	}
}

func TestADaemonsUserNamespaceIsReadFromItsRoot(t *testing.T) {
	for root, want := range map[string]int{"/var/lib/docker/100000.100000": 100000, "/var/lib/docker": 0, "/srv/docker": 0} {
		if got := remapOf(root); got != want {
			t.Errorf("%s: got %d, want %d", root, got, want)
		}
	}
}
