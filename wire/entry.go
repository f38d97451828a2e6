package wire

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Entry is one input of a run: a file, or an archive to unpack. It is either
// inline or fetched from a URL, never both.
type Entry struct {
	// Path is where the entry goes below the work directory: the file itself,
	// or the directory that the archive is unpacked into.
	Path RelPath `json:"path"`
	// Kind says what is done with the bytes.
	Kind EntryKind `json:"kind"`
	// Inline is the content of a small entry, base64 in JSON.
	Inline []byte `json:"inline,omitempty"`
	// URL is where the content is fetched from: file://, https:// or http://.
	URL string `json:"url,omitempty"`
	// Size is the length of the content in bytes. One byte more, or one less,
	// is a failure of the fetch.
	Size int64 `json:"size"`
	// Nested asks for members of an archive to be unpacked too, as a gem's or
	// a deb's data archive has to be before anything in it can be seen.
	Nested []Nested `json:"nested,omitempty"`
}

// EntryKind is what is done with an entry's bytes.
type EntryKind string

const (
	// File entries are written as they are.
	File EntryKind = "file"
	// Archive entries are unpacked; the format is told by content.
	Archive EntryKind = "archive"
)

// Nested asks for one level of archive inside an archive.
type Nested struct {
	// Member is the inner archive's name within the outer one. A single
	// trailing "*" matches any ending, as in "data.tar.*".
	Member string `json:"member"`
	// Into is where it is unpacked, below the entry's own path.
	Into RelPath `json:"into"`
	// Optional says that the outer archive may be without the member; an
	// archive that lacks one that is not optional is refused.
	Optional bool `json:"optional,omitempty"`
}

// Matches reports whether a member of the outer archive is the inner one.
func (n Nested) Matches(member string) bool {
	if prefix, ok := strings.CutSuffix(n.Member, "*"); ok {
		return strings.HasPrefix(member, prefix)
	}
	return member == n.Member
}

// ArtifactURL stands in a bundle for the URL of the run's artifact until the
// bundle is written, when the place of the artifact is known. It never
// reaches an agent.
const ArtifactURL = "artifact:"

// Reserved are the names directly below the work directory that belong to the
// agent and the runtime. No entry may use them, and no scanner can rely on
// what it writes there.
var Reserved = []string{"manifest.json", "out.tar", "in", "tmp"}

func (m *Manifest) validateEntries() error {
	if len(m.Entries) > EntryCountCap {
		return fmt.Errorf("%d entries, want at most %d", len(m.Entries), EntryCountCap)
	}
	inline := 0
	seen := make(map[RelPath]bool, len(m.Entries))
	for i, e := range m.Entries {
		if err := e.Validate(); err != nil {
			return fmt.Errorf("entries[%d]: %w", i, err)
		}
		if seen[e.Path] {
			return fmt.Errorf("entries[%d]: a second entry at %q", i, e.Path)
		}
		seen[e.Path] = true
		inline += len(e.Inline)
	}
	if inline > InlineCap {
		return fmt.Errorf("inline entries have %d bytes, want at most %d", inline, InlineCap)
	}
	return nil
}

// Validate reports the first thing in e that no agent could follow.
func (e Entry) Validate() error {
	first, _, _ := strings.Cut(e.Path.String(), "/")
	for _, name := range Reserved {
		if first == name {
			return fmt.Errorf("path %q is reserved", e.Path)
		}
	}
	switch {
	case e.Kind != File && e.Kind != Archive:
		return fmt.Errorf("kind is %.32q, want %q or %q", string(e.Kind), File, Archive)
	case e.Kind == File && e.Path.IsRoot():
		return errors.New("a file has no path")
	case e.Kind == File && len(e.Nested) > 0:
		return errors.New("nested is set on a file")
	case len(e.Nested) > 8:
		return fmt.Errorf("%d nested, want at most 8", len(e.Nested))
	case e.Size < 0:
		return fmt.Errorf("size is %d, want 0 or more", e.Size)
	}
	for _, n := range e.Nested {
		if n.Member == "" || len(n.Member) > PathBytesCap || indexNUL(n.Member) || strings.Contains(strings.TrimSuffix(n.Member, "*"), "*") {
			return fmt.Errorf("nested member %.64q, want a name with at most one trailing *", n.Member)
		}
	}
	return e.validateSource()
}

func (e Entry) validateSource() error {
	if e.URL != "" {
		if len(e.Inline) > 0 {
			return errors.New("both inline and url are set")
		}
		return validateURL(e.URL)
	}
	if int64(len(e.Inline)) != e.Size {
		return fmt.Errorf("size is %d, but inline has %d bytes", e.Size, len(e.Inline))
	}
	return nil
}

func validateURL(s string) error {
	if len(s) > URLCap {
		return fmt.Errorf("url has %d bytes, want at most %d", len(s), URLCap)
	}
	u, err := url.Parse(s)
	if err != nil {
		// The parse error would repeat the URL, whose query may be a signature.
		return errors.New("url does not parse")
	}
	switch {
	case u.User != nil:
		return errors.New("url has user information")
	case u.Scheme == "file" && u.Host == "" && strings.HasPrefix(u.Path, "/") && u.RawQuery == "":
		return nil
	case (u.Scheme == "https" || u.Scheme == "http") && u.Host != "":
		return nil
	}
	return fmt.Errorf("url scheme %.16q, want file:///path, https://host or http://host", u.Scheme)
}
