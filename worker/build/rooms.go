package build

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// hinted is a runtime whose probe says how a room that is not there is built,
// in the words of the command line.
type hinted struct {
	sandbox.Runtime
	rooms string
}

// Probe implements sandbox.Runtime.
func (h hinted) Probe(ctx context.Context, room sandbox.Room) (sandbox.ProbeReport, error) {
	report, err := h.Runtime.Probe(ctx, room)
	if _, failed := report.Failed(); failed {
		if info, statErr := os.Stat(filepath.Join(h.rooms, room.Scanner)); statErr != nil || !info.IsDir() {
			report.Hint = "build it: " + TreeCommand(h.rooms, room.Scanner, room.Commands)
		}
	}
	return report, err
}

// TreeCommand is the command that builds a scanner's room. Where its program
// is, only the reader knows.
func TreeCommand(rooms, scanner string, commands []string) string {
	line := fmt.Sprintf("sandboxctl tree %s --rooms %s", scanner, rooms)
	if len(commands) == 0 {
		return line + " --file PATH/TO/PROGRAM (or --image ARCHIVE)"
	}
	return line + fmt.Sprintf(" --file %s --command %s (or --image ARCHIVE)", filepath.Join("PATH", "TO", filepath.Base(commands[0])), commands[0])
}
