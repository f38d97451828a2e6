package extract

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/wire"
)

type kind uint8

const (
	kindFile kind = iota
	kindDir
	kindSymlink
	kindForeign // nothing that an archive made
)

// claim is what stands under one name of one directory.
type claim struct {
	exact uint64 // of the name in its own letter case
	kind  kind
	node  *dir // of a directory
}

// claims remembers every name, folded, by a keyed hash: a name costs a few
// words however long it is, and nobody can make two names collide who does not
// know the seed.
type claims struct {
	seed   maphash.Seed
	byName map[uint64]claim
	next   map[uint64]int    // the next number of a name that clashed
	names  map[uint64]string // of files, kept only where a case clash replaces
}

func (c *claims) exact(name string) uint64 { return maphash.String(c.seed, name) }

func (c *claims) key(d *dir, name string) uint64 {
	var h maphash.Hash
	h.SetSeed(c.seed)
	var id [4]byte
	binary.LittleEndian.PutUint32(id[:], d.id)
	_, _ = h.Write(id[:])
	_, _ = h.WriteString(fold(name))
	return h.Sum64()
}

func (c *claims) get(d *dir, name string) (claim, bool) {
	found, ok := c.byName[c.key(d, name)]
	return found, ok
}

func (c *claims) set(d *dir, name string, v claim) {
	v.exact = c.exact(name)
	key := c.key(d, name)
	c.byName[key] = v
	if c.names != nil {
		c.names[key] = name
	}
}

// claim takes name in d for an entry and returns the name it has on disk. A
// directory that is there already is returned as such.
func (t *tree) claim(d *dir, name string, k kind, entry string) (string, *dir, error) {
	c, taken := t.claims.get(d, name)
	if !taken {
		if d == t.top && slices.Contains(wire.Reserved, name) {
			return t.number(d, name, k, entry, RuleNameReserved)
		}
		t.claims.set(d, name, claim{kind: k})
		return name, nil, nil
	}
	rule, policy := RuleCaseClash, t.x.policy.CaseClash
	if c.exact == t.claims.exact(name) {
		switch {
		case k == kindDir && c.kind == kindDir:
			return name, c.node, nil
		case k == kindDir && c.kind == kindSymlink:
			return "", nil, refuse(entry, RuleThroughSymlink, quote(name)+" is a symbolic link of this archive")
		}
		rule, policy = RuleDuplicate, t.x.policy.Duplicates
		if k != c.kind {
			rule = RuleTypeClash
		}
	}
	switch {
	case policy == wire.ClashRefuse:
		return "", nil, refuse(entry, rule, "the name is taken by an earlier entry")
	case policy == wire.ClashReplace && k == kindDir && c.kind == kindDir:
		t.x.note(entry, rule, replaced, "merged into "+quote(c.node.name))
		return c.node.name, c.node, nil
	case policy == wire.ClashReplace && c.kind != kindDir && c.kind != kindForeign:
		return t.replace(d, name, k, entry, rule)
	}
	return t.number(d, name, k, entry, rule)
}

// replace removes what stands under name and claims the name anew.
func (t *tree) replace(d *dir, name string, k kind, entry, rule string) (string, *dir, error) {
	old := name
	if stored, ok := t.claims.names[t.claims.key(d, name)]; ok {
		old = stored
	}
	if l := t.linkAt[linkKey{d.id, old}]; l != nil {
		l.dead = true
		delete(t.linkAt, linkKey{d.id, old})
	}
	if err := t.unlink(place{dir: d, name: old, entry: entry}); err != nil && !errors.Is(err, unix.ENOENT) {
		return "", nil, fmt.Errorf("replacing %s: %w", quote(old), err)
	}
	t.claims.set(d, name, claim{kind: k})
	t.x.note(entry, rule, replaced, "took the place of an earlier entry")
	return name, nil, nil
}

// number claims the first free numbered name beside name. The number goes
// before the ending, because scanners choose files by their ending.
func (t *tree) number(d *dir, name string, k kind, entry, rule string) (string, *dir, error) {
	stem, ending := name, ""
	if i := strings.LastIndexByte(name, '.'); i > 0 && k != kindDir && len(name)-i <= 16 {
		stem, ending = name[:i], name[i:]
	}
	// Names that are cut to one stem count together, or a crowd of long ones
	// would try each other's numbers.
	stem = shorten(stem, wire.NameBytesCap-len(ending)-numberMost)
	key := t.claims.key(d, stem+"~"+ending)
	for n := max(t.claims.next[key], 2); ; n++ {
		candidate := fmt.Sprintf("%s~%d%s", stem, n, ending)
		if _, taken := t.claims.get(d, candidate); taken {
			continue
		}
		t.claims.next[key] = n + 1
		t.claims.set(d, candidate, claim{kind: k})
		t.x.note(entry, rule, renamed, "kept as "+quote(candidate))
		return candidate, nil, nil
	}
}

// numberMost is the length of "~" and the largest number.
const numberMost = 11

func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for s = s[:most]; len(s) > 0 && !utf8.ValidString(s); {
		s = s[:len(s)-1]
	}
	return s
}

// child returns the directory that name of parent stands for, made if missing.
func (t *tree) child(parent *dir, name, entry string) (d *dir, made bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	disk, d, err := t.claim(parent, name, kindDir, entry)
	if err != nil || d != nil {
		return d, false, err
	}
	for {
		d, err = t.mkdir(parent, disk)
		if !errors.Is(err, errForeign) {
			break
		}
		if disk, err = t.foreign(parent, disk, kindDir, entry); err != nil {
			return nil, false, err
		}
	}
	if err != nil {
		return nil, false, err
	}
	t.claims.set(parent, disk, claim{kind: kindDir, node: d})
	return d, true, nil
}

// foreign finds another name where one is taken by what no archive made: an
// input file, or something of the agent's. That is never replaced.
func (t *tree) foreign(d *dir, name string, k kind, entry string) (string, error) {
	if t.x.policy.Duplicates == wire.ClashRefuse {
		return "", refuse(entry, RuleDuplicate, "the name is taken by another input")
	}
	t.claims.set(d, name, claim{kind: kindForeign})
	disk, _, err := t.number(d, name, k, entry, RuleDuplicate)
	return disk, err
}
