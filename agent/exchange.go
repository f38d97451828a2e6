package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/batleforc/batlehub-sandbox/agent/internal/fetch"
	"github.com/batleforc/batlehub-sandbox/agent/internal/probe"
)

// openBundle finds the directories through which the run's bundle and result
// come and go, where they are not the work directory, and opens the bundle's.
// Nothing looks them up by name again: they are shut for the scanner, and a
// runtime may take their names away.
func (r *run) openBundle() error {
	for _, url := range append([]string{r.in}, r.store.urls...) {
		dir, ok := r.exchange(url)
		if ok && !slices.Contains(r.exchanges, dir) {
			r.exchanges = append(r.exchanges, dir)
		}
	}
	if log := terminationLog(); log != "" {
		r.exchanges = append(r.exchanges, log)
	}
	dir, ok := r.exchange(r.in)
	if !ok {
		return nil
	}
	var err error
	r.bundle, err = os.OpenRoot(dir)
	return err
}

// exchange is the directory of a file URL, unless it belongs to the scanner
// anyway or is the root of everything, which can't be shut.
func (r *run) exchange(url string) (string, bool) {
	name, ok := fetch.FilePath(url)
	if !ok {
		return "", false
	}
	dir, work := filepath.Dir(filepath.Clean(name)), filepath.Clean(r.opts.WorkDir)
	return dir, dir != "/" && dir != work && !strings.HasPrefix(dir, work+"/")
}

// terminationLog is the file of the host's that a kubelet gives every pod to
// write its last words to, which end up in the cluster's own storage. A pod
// can't do without it, so it is shut for the scanner as well.
func terminationLog() string {
	info, err := os.Lstat(probe.TerminationLog)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return probe.TerminationLog
}
