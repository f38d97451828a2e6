package targets

import (
	"fmt"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// brokenRoom is what fails an assertion by the room, by the agent in it or by
// the commands that are asked for, which is the same for every runtime. Every
// other assertion is about a wall that is the runtime's own to take down.
func brokenRoom(id assertion) (how breakage, commands []string, ok bool) {
	switch id {
	case wire.AssertResult:
		how.noAgent = true
	case wire.AssertWire:
		how.agent = wireNext
	case wire.AssertSeccomp:
		how.agent = noFilter
	case wire.AssertCredentials:
		how.files = map[string]string{"var/run/secrets/kubernetes.io/serviceaccount/token": "a token"}
	case wire.AssertRoom:
		how.files = map[string]string{"usr/bin/sh": "a shell"}
	case wire.AssertCommand:
		commands = []string{"/usr/bin/another-scanner"}
	default:
		return how, nil, false
	}
	return how, commands, true
}

// unbreakable is the error of an assertion that can't be made to fail, alone or
// at all.
func unbreakable(reason string) error {
	return fmt.Errorf("%w: %s", conformance.ErrNotBreakable, reason)
}

// keptPrivileges says why no runtime can let a scanner gain privileges.
func keptPrivileges(told string) error {
	return unbreakable("the agent sets the bit itself, for its filter could not be installed without, whatever " + told)
}

// needCanary is an error where nothing listens outside: an open network could
// not be told from a closed one.
func needCanary(s conformance.Setup) error {
	if len(s.Canaries) == 0 {
		return unbreakable("this host has no address but loopback")
	}
	return nil
}
