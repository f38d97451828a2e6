package conformance

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Group is a family of specs.
type Group string

// The groups of specs.
const (
	Contract   Group = "C"
	Walled     Group = "W"
	Extraction Group = "E"
	Probing    Group = "P"
	Orphaned   Group = "O"
	Findings   Group = "F"
)

// Groups are all groups in reporting order, with what each is about.
func Groups() []Group { return []Group{Contract, Walled, Extraction, Probing, Orphaned, Findings} }

// Title says what a group is about.
func (g Group) Title() string {
	return map[Group]string{
		Contract: "contract", Walled: "walls", Extraction: "extraction", Probing: "probe", Orphaned: "orphans", Findings: "findings",
	}[g]
}

// Control says what a runtime without walls must make of a spec, which is how
// the suite proves that its specs see.
type Control string

// The controls.
const (
	// Kept: the spec is kept without walls too; the agent alone keeps it.
	Kept Control = ""
	// Broken: without walls the spec must fail.
	Broken Control = "broken"
	// BrokenAsRoot: without walls the spec must fail when the suite runs as
	// root; the host's own permissions may keep it otherwise.
	BrokenAsRoot Control = "broken-as-root"
	// Either: what happens without walls depends on the host.
	Either Control = "either"
)

// Spec is one thing that must hold.
type Spec struct {
	// ID is stable for good, such as "W14".
	ID string
	// Group is the letter the id begins with.
	Group Group
	// Title names the spec in a few words.
	Title string
	// Why says in one sentence what must hold and why.
	Why string
	// Needs are the capabilities without which the spec is not claimed.
	Needs []Capability
	// Control says what a runtime without walls makes of it.
	Control Control
	// Scoped says that the agent's Landlock domain may keep the spec too, where
	// the kernel has one with scopes (Linux 6.12): what happens without walls
	// depends on the host there.
	Scoped bool
	// HostMayLack says that a host may be without what the spec looks at, so
	// that not running it there leaves nothing of the core unchecked.
	HostMayLack bool

	check func(*T)
}

// Core reports whether the spec is part of the core.
func (s Spec) Core() bool {
	return s.Group != Findings && slices.ContainsFunc(s.Needs, func(c Capability) bool { return slices.Contains(Core(), c) })
}

// Specs are all specs, by group and id.
func Specs() []Spec { return slices.Clone(specs()) }

var specs = sync.OnceValue(func() []Spec {
	all := slices.Concat(contractSpecs(), wallSpecs(), extractionSpecs(), probeSpecs(), orphanSpecs(), findingSpecs())
	seen := make(map[string]bool, len(all))
	for i, s := range all {
		if seen[s.ID] || !strings.HasPrefix(s.ID, string(s.Group)) || s.check == nil {
			panic(fmt.Sprintf("spec %d (%q) has no id of its own, is in the wrong group or checks nothing", i, s.ID))
		}
		seen[s.ID] = true
	}
	return all
})

// ByID returns the spec of an id.
func ByID(id string) (Spec, bool) {
	for _, s := range specs() {
		if s.ID == id {
			return s, true
		}
	}
	return Spec{}, false
}
