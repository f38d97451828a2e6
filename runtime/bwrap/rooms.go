package bwrap

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// roomOf is the tree of a scanner. A tree that is not there is a refusal: no
// other root takes its place.
func roomOf(rooms, scanner string) (string, *sandbox.Error) {
	room, err := filepath.Abs(filepath.Join(rooms, scanner))
	if err != nil {
		return "", &sandbox.Error{Kind: sandbox.Refused, Code: sandbox.CodeConfig, Err: err}
	}
	hint := "build it with: sandboxctl tree " + scanner
	info, err := os.Stat(room)
	switch {
	case err != nil:
		return "", &sandbox.Error{
			Kind: sandbox.Refused, Code: sandbox.CodeRoomMissing,
			Detail: fmt.Sprintf("there is no room for scanner %q at %s", scanner, room), Err: err, Hint: hint,
		}
	case !info.IsDir():
		return "", &sandbox.Error{
			Kind: sandbox.Refused, Code: sandbox.CodeRoomMissing,
			Detail: fmt.Sprintf("the room %s of scanner %q is not a directory", room, scanner), Hint: hint,
		}
	}
	if root, err := os.Stat("/"); err != nil || os.SameFile(root, info) {
		return "", &sandbox.Error{
			Kind: sandbox.Refused, Code: sandbox.CodeConfig,
			Detail: fmt.Sprintf("the room %s of scanner %q is this host's own root", room, scanner), Hint: hint,
		}
	}
	return room, nil
}
