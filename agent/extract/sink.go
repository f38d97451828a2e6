package extract

import (
	"fmt"
	"strings"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// sink lays out the entries of one archive. Every format hands it entries, and
// it alone decides what becomes of them.
type sink struct {
	x    *Extractor
	base *dir

	dirs     map[string]*dir // by their names in the archive
	lastPath string
	lastDir  *dir
	moved    map[string]*place // entries that stand under another name

	outer  bool // no archive in another
	nested []wire.Nested
	inner  [][]*place // what matched each of nested
}

const (
	setIDBits = 0o6000
	stickyBit = 0o1000
)

// header is an entry as a format's reader understood it.
type header struct {
	name   string
	mode   int64 // Unix permission bits, set-id and sticky among them
	size   int64
	target string // of a link
}

// begin counts an entry and judges its name.
func (s *sink) begin(h *header) (cleaned, error) {
	if s.x.entries >= s.x.policy.MaxEntries {
		return cleaned{}, refuse(h.name, RuleLimitEntries, fmt.Sprintf("more than %d entries", s.x.policy.MaxEntries))
	}
	s.x.entries++
	s.x.count(func(r *wire.Extraction) { r.Entries++ })
	c, err := s.x.clean(h.name)
	if err != nil {
		return c, err
	}
	if h.mode&(setIDBits|stickyBit) != 0 {
		s.x.note(h.name, RuleModeClamped, clamped, fmt.Sprintf("mode %04o lost its set-id and sticky bits", h.mode&0o7777))
	}
	if c.changed != "" {
		s.x.note(h.name, c.changed, renamed, "kept as "+quote(c.path))
	}
	return c, nil
}

// directory lays out a directory. A second entry for one changes nothing.
func (s *sink) directory(h *header) error {
	c, err := s.begin(h)
	if err != nil {
		return err
	}
	if c.path != "" {
		if _, err := s.dirAt(c.path, h.name, false); err != nil {
			return err
		}
	}
	s.x.count(func(r *wire.Extraction) { r.Directories++ })
	return nil
}

// file claims the place of a file and reserves its bytes. Whoever gets the
// place writes exactly h.size bytes to it, or refuses the archive.
func (s *sink) file(h *header) (*place, error) {
	c, err := s.begin(h)
	if err != nil {
		return nil, err
	}
	if c.slash || c.path == "" {
		return nil, s.namelessFault(h, c)
	}
	if err := s.x.reserve(h.name, h.size); err != nil {
		return nil, err
	}
	p, err := s.take(c.path, h, kindFile)
	if err != nil {
		return nil, err
	}
	s.match(p)
	return p, nil
}

// reserve takes a file's bytes out of the limits before one is written.
func (x *Extractor) reserve(entry string, size int64) error {
	if size > x.policy.MaxFileBytes {
		return refuse(entry, RuleLimitFileBytes, fmt.Sprintf("the file has %d bytes, want at most %d", size, x.policy.MaxFileBytes))
	}
	if size > x.policy.MaxBytes-x.bytes {
		return refuse(entry, RuleLimitBytes, fmt.Sprintf("%d bytes and %d before it, want at most %d in all", size, x.bytes, x.policy.MaxBytes))
	}
	x.bytes += size
	return nil
}

// wrote counts a file that stands complete.
func (x *Extractor) wrote(size int64) {
	x.count(func(r *wire.Extraction) { r.Files++; r.Bytes += size })
}

// symlink declares a symbolic link. zip says that many installers of the
// format write the link's text as a file.
func (s *sink) symlink(h *header, zip bool) error {
	c, err := s.begin(h)
	if err != nil {
		return err
	}
	if c.slash || c.path == "" {
		return s.namelessFault(h, c)
	}
	if err := s.targetFault(h); err != nil {
		return err
	}
	if err := s.x.reserve(h.name, int64(len(h.target))); err != nil {
		return err
	}
	p, err := s.take(c.path, h, kindSymlink)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(h.target, "/") {
		s.x.tree.symlink(&link{place: *p, target: h.target, base: s.base, fromZip: zip})
		return nil
	}
	if zip {
		return s.x.tree.keepText(p, h.target, RuleSymlinkAbsolute)
	}
	s.x.note(h.name, RuleSymlinkAbsolute, skipped, "its target is "+quote(h.target))
	return nil
}

func (s *sink) targetFault(h *header) error {
	var fault string
	switch {
	case h.target == "":
		fault = "the target is empty"
	case int64(len(h.target)) > s.x.policy.MaxPathBytes:
		fault = fmt.Sprintf("the target has %d bytes, want at most %d", len(h.target), s.x.policy.MaxPathBytes)
	case int64(strings.Count(h.target, "/")) > 2*s.x.policy.MaxDepth:
		fault = fmt.Sprintf("the target has more than %d components", 2*s.x.policy.MaxDepth)
	case strings.Contains(h.target, `\`):
		fault = "the target has a backslash"
	default:
		if _, rule := escape(h.target); rule == "" {
			return nil
		}
		fault = "the target can't be printed"
	}
	return refuse(h.name, RuleSymlinkTarget, fault)
}

// hardlink makes another name for a file extracted before. Its target is a
// name in the archive, never a path on disk.
func (s *sink) hardlink(h *header) error {
	c, err := s.begin(h)
	if err != nil {
		return err
	}
	if c.slash || c.path == "" {
		return s.namelessFault(h, c)
	}
	target, err := s.x.clean(h.target)
	if err != nil {
		return refuse(h.name, RuleHardlinkTarget, "its target "+quote(h.target)+" is no name an entry could have")
	}
	if target.path == c.path {
		s.x.note(h.name, RuleHardlinkSelf, skipped, "it links to itself")
		return nil
	}
	from, ok := s.find(target.path)
	if !ok {
		return refuse(h.name, RuleHardlinkTarget, "its target "+quote(h.target)+" is no file extracted before it")
	}
	p, err := s.take(c.path, h, kindFile)
	if err != nil {
		return err
	}
	s.match(p)
	return s.x.tree.hardlink(p, from)
}

// find returns where an entry that is a file stands.
func (s *sink) find(path string) (place, bool) {
	if p, ok := s.moved[path]; ok {
		return *p, true
	}
	parent, name := split(path)
	d, ok := s.dirs[parent]
	if !ok {
		return place{}, false
	}
	c, ok := s.x.tree.claims.get(d, name)
	return place{dir: d, name: name, entry: path}, ok && c.kind == kindFile && c.exact == s.x.tree.claims.exact(name)
}

// take claims a place for a file or a symbolic link.
func (s *sink) take(path string, h *header, k kind) (*place, error) {
	parent, name := split(path)
	d, err := s.dirAt(parent, h.name, true)
	if err != nil {
		return nil, err
	}
	p, err := s.x.tree.take(d, name, k, h.name)
	if err != nil {
		return nil, err
	}
	p.path = path
	if p.name != name && k == kindFile {
		s.remember(&p)
	}
	return &p, nil
}

// remember keeps where an entry stands whose name on disk is another, for the
// hard links that may name it.
func (s *sink) remember(p *place) {
	if s.moved == nil {
		s.moved = make(map[string]*place)
	}
	s.moved[p.path] = p
}

func split(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)], path[i+1:]
}

// dirAt returns the directory that a name in the archive stands for and makes
// what is missing of it. Those that no entry names are limited like entries.
func (s *sink) dirAt(path, entry string, implicit bool) (*dir, error) {
	if s.lastDir != nil && path == s.lastPath {
		return s.lastDir, nil
	}
	d, ok := s.dirs[path]
	if !ok {
		parent, name := split(path)
		up, err := s.dirAt(parent, entry, true)
		if err != nil {
			return nil, err
		}
		var made bool
		if d, made, err = s.x.tree.child(up, name, entry); err != nil {
			return nil, err
		}
		if made && implicit {
			if s.x.implicit++; s.x.implicit > s.x.policy.MaxEntries {
				return nil, refuse(entry, RuleLimitEntries, fmt.Sprintf("more than %d directories that no entry names", s.x.policy.MaxEntries))
			}
		}
		s.dirs[path] = d
	}
	s.lastPath, s.lastDir = path, d
	return d, nil
}

// match remembers the place of an inner archive that the manifest asks for.
func (s *sink) match(p *place) {
	for i, n := range s.nested {
		if n.Matches(p.path) {
			s.inner[i] = append(s.inner[i], p)
		}
	}
}

func (s *sink) namelessFault(h *header, c cleaned) error {
	if c.path == "" {
		return refuse(h.name, RuleNameEmpty, "only a directory can be without a name")
	}
	return refuse(h.name, RuleTypeAmbiguous, "the name ends in a slash, but the entry is no directory")
}

// skip counts an entry that carries nothing and is left out.
func (s *sink) skip(h *header, rule, detail string) error {
	if _, err := s.begin(&header{name: h.name}); err != nil {
		return err
	}
	s.x.note(h.name, rule, skipped, detail)
	return nil
}
