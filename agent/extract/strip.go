package extract

import "hash/maphash"

// stripClashes notices entries of a tar that npm would write to one place: it
// drops the first component of every name, whatever it is, and the last entry
// wins. Both are kept where the archive has them, and so a scanner sees both;
// but the one that gets installed may be the one that looks out of place. An
// archive whose top directories hold files of the same names is odd and no
// attack by itself, and so it is noted and not refused.
type stripClashes struct {
	seed   maphash.Seed
	places map[uint64]uint64 // from a hash of what is left to one of the whole
}

// meet notes h if another entry comes to stand in its place.
func (c *stripClashes) meet(x *Extractor, h *header) {
	left := pathStripped(h.name)
	if left == "" {
		return
	}
	if c.places == nil {
		c.seed, c.places = maphash.MakeSeed(), make(map[uint64]uint64)
	}
	place, whole := maphash.String(c.seed, fold(left)), maphash.String(c.seed, tidied(h.name))
	first, taken := c.places[place]
	if !taken {
		c.places[place] = whole
		return
	}
	if first != whole {
		x.note(h.name, RuleStripClash, noted, "it is another entry's "+quote(left)+" once the first component is taken away")
	}
}
