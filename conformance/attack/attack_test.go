package attack_test

import (
	stdtar "archive/tar"
	stdzip "archive/zip"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/conformance/attack"
	"github.com/batleforc/batlehub-sandbox/wire"
)

func byID(t *testing.T, id string) attack.Case {
	t.Helper()
	for _, c := range attack.Cases() {
		if c.ID == id {
			return c
		}
	}
	t.Fatalf("there is no case %s", id)
	return attack.Case{}
}

func TestThereAreEnoughCasesAndEachHasOneAnswer(t *testing.T) {
	cases := attack.Cases()
	if len(cases) < 60 {
		t.Errorf("%d cases, want at least 60", len(cases))
	}
	seen := map[string]bool{}
	for _, c := range cases {
		if seen[c.ID] || seen[c.Name] {
			t.Errorf("%s (%s) is there twice", c.ID, c.Name)
		}
		seen[c.ID], seen[c.Name] = true, true
		if (c.Refused == "") == (c.Tree == nil) {
			t.Errorf("%s is neither refused nor extracted, or both", c.ID)
		}
		policy := wire.DefaultExtractPolicy()
		if c.Policy != nil {
			c.Policy(&policy)
		}
		if err := policy.Validate(); err != nil {
			t.Errorf("%s has a policy that no agent takes: %v", c.ID, err)
		}
		for path := range c.Tree {
			for i, r := range path {
				if r == '/' && c.Tree[path[:i]].Type != "dir" {
					t.Errorf("%s: the tree has %q and not its directory", c.ID, path)
				}
			}
		}
	}
}

func TestArchivesAreTheSameEveryTime(t *testing.T) {
	for _, c := range attack.Cases() {
		if !bytes.Equal(c.Archive(), c.Archive()) {
			t.Errorf("%s differs from itself", c.ID)
		}
	}
}

func TestBombsAreSmall(t *testing.T) {
	for _, c := range attack.Cases() {
		if n := len(c.Archive()); n > 3<<20 {
			t.Errorf("%s has %d bytes", c.ID, n)
		}
	}
}

// The standard library is another writer's reader: what it reads of the honest
// archives is what their trees say.
func TestTheHonestTarsAreReadByAnotherReader(t *testing.T) {
	for id, open := range map[string]func([]byte) io.Reader{
		"E01": func(b []byte) io.Reader { return bytes.NewReader(b) },
		"E02": func(b []byte) io.Reader { r, _ := gzip.NewReader(bytes.NewReader(b)); return r },
		"E03": func(b []byte) io.Reader { return bzip2.NewReader(bytes.NewReader(b)) },
		"E09": func(b []byte) io.Reader { r, _ := gzip.NewReader(bytes.NewReader(b)); return r },
		"E10": func(b []byte) io.Reader { return bytes.NewReader(b) },
	} {
		c := byID(t, id)
		files := 0
		for r := stdtar.NewReader(open(c.Archive())); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", id, err)
			}
			body, err := io.ReadAll(r)
			if err != nil {
				t.Fatalf("%s: %v", id, err)
			}
			if h.Typeflag == stdtar.TypeReg {
				files++
				if want := c.Tree[h.Name]; !bytes.Equal(want.Content, body) {
					t.Errorf("%s: %q has %q, want %q", id, h.Name, body, want.Content)
				}
			}
		}
		if files == 0 {
			t.Errorf("%s has no files", id)
		}
	}
}

func TestTheHonestZipsAreReadByAnotherReader(t *testing.T) {
	for _, id := range []string{"E06", "E07", "E08"} {
		c := byID(t, id)
		b := c.Archive()
		r, err := stdzip.NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		for _, f := range r.File {
			in, err := f.Open()
			if err != nil {
				t.Fatalf("%s: %v", id, err)
			}
			body, err := io.ReadAll(in)
			if err != nil || !bytes.Equal(body, c.Tree[f.Name].Content) {
				t.Errorf("%s: %q: %d bytes, %v", id, f.Name, len(body), err)
			}
		}
	}
}

// An attack that does not attack proves nothing: a careless reader must see
// what each of these hides.
func TestTheAttacksAreWhatTheySay(t *testing.T) {
	name := func(id string) string {
		r := stdtar.NewReader(bytes.NewReader(byID(t, id).Archive()))
		last := ""
		for {
			h, err := r.Next()
			if err != nil && h == nil {
				return last
			}
			last = h.Name
		}
	}
	if got := name("E13"); got != "../evil" {
		t.Errorf("E13 has the name %q", got)
	}
	if got := name("E16"); got != "/etc/evil" {
		t.Errorf("E16 has the name %q", got)
	}
	bomb, err := gzip.NewReader(bytes.NewReader(byID(t, "E97").Archive()))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, bomb); err != nil || n < 48<<20 {
		t.Errorf("the gzip bomb has %d bytes: %v", n, err)
	}
	b := byID(t, "E102").Archive()
	if !bytes.Contains(b, []byte("evil.txt")) || !bytes.Contains(b, []byte("safe.txt")) {
		t.Error("E102 does not have two names")
	}
	if !strings.Contains(string(byID(t, "E81").Archive()), "hidden") {
		t.Error("E81 hides nothing")
	}
}
