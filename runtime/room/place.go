package room

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// standing are the directories that every room has.
var standing = append([]string{".", "tmp", "usr", "usr/bin", "usr/local", path.Dir(AgentPath)}, mountPoints...)

// checkPlace refuses a place from which what is put there would vanish without
// a word: it is covered when the sandbox starts, is overwritten by what every
// room has, or is a directory.
func (t *tree) checkPlace(name string, file, ownAgent bool) error {
	real, err := follow(t.root, name)
	if err != nil {
		return err
	}
	for _, p := range []string{name, real} {
		first, _, below := strings.Cut(p, "/")
		switch {
		case below && first == "work":
			return fmt.Errorf("/%s would not be seen: /work is every run's own directory; a file for one run goes into its layout", p)
		case below && first == "tmp":
			return fmt.Errorf("/%s would not be seen: /tmp is in every run's own directory, and empty in the beginning", p)
		case below && slices.Contains(mountPoints, first):
			return fmt.Errorf("/%s would not be seen: the sandbox has a /%s of its own", p, first)
		case !below && !file && p != "." && (p == "tmp" || slices.Contains(mountPoints, p)):
			return fmt.Errorf("what is put in /%s would not be seen: a sandbox has a /%s of its own", p, p)
		case file && (slices.Contains(standing, p) || isDir(t.root, p)):
			return fmt.Errorf("/%s is a directory of the room; name the file in it, as in %s=…", strings.TrimPrefix(p, "."), path.Join("/", p, "name"))
		case file && ownAgent && p == AgentPath:
			return fmt.Errorf("/%s is the agent's place, which goes there after everything else; name it with --agent", p)
		}
	}
	return nil
}
