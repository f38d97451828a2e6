package janitor

import (
	"bufio"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/process"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/rmtree"
)

func init() {
	if len(os.Args) == 1 && os.Args[0] == Marker {
		os.Exit(stage(os.Stdin))
	}
}

// patience is how long the janitor goes on trying. A sandbox dies with the
// process that started it, but not in the same instant, and may still write.
const patience = 10 * time.Second

// stage is the janitor's process: it listens until the pipe ends, and ends the
// runs and removes the directories that it was told of and not told to forget.
func stage(pipe io.Reader) int {
	signal.Ignore()
	left := listen(pipe)
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for deadline := time.Now().Add(patience); ; <-retry.C {
		for path := range maps.Clone(left) {
			killed := process.KillRun(filepath.Join(path, "work"))
			if rmtree.Remove(path) == nil && !killed {
				delete(left, path)
			}
		}
		if len(left) == 0 {
			return 0
		}
		if time.Now().After(deadline) {
			return 1
		}
	}
}

// listen returns what stands added when the pipe ends.
func listen(pipe io.Reader) map[string]bool {
	left := make(map[string]bool)
	for lines := bufio.NewScanner(pipe); lines.Scan(); {
		text := lines.Text()
		if len(text) < 2 || !slices.Contains([]byte("+-"), text[0]) {
			continue
		}
		path, err := strconv.Unquote(text[1:])
		if err != nil {
			continue
		}
		if text[0] == '+' {
			left[path] = true
		} else {
			delete(left, path)
		}
	}
	return left
}
