package crun

import (
	"context"
	"errors"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// tryPrefix begins the names of cgroups that are only tried, and no run's.
const tryPrefix = "batlehub-try-"

// tried is how old a cgroup that is only tried may get. It takes milliseconds; an
// older one is that of a worker that was killed meanwhile.
const tried = 5 * time.Second

// removeTried removes what killed workers have left of trying.
func (l layout) removeTried(parent string) {
	for _, mount := range l.all {
		entries, err := os.ReadDir(path.Join(mount, parent))
		if err != nil {
			continue // nobody has runs here
		}
		for _, e := range entries {
			info, err := e.Info()
			if err == nil && info.IsDir() && strings.HasPrefix(e.Name(), tryPrefix) && time.Since(info.ModTime()) > tried {
				_ = unix.Rmdir(path.Join(mount, parent, e.Name())) // or it is not empty, and no one's of ours
			}
		}
	}
}

// tryChild makes a cgroup with limits and removes it, to see that the
// controllers are handed down to this process and that it may use them. It
// also says whether swap can be limited.
func (l layout) tryChild(ctx context.Context, parent, name string) (swap bool, err error) {
	g := group{layout: l, parent: parent, run: name}
	defer func() { err = errors.Join(err, g.remove(ctx)) }()
	least := Container{Limits: wire.Limits{MemoryMB: 64, Processes: 16}, CPUMilli: 1000}
	if err := g.make(limitsOf(least)); err != nil {
		return false, err
	}
	file := "memory.swap.max"
	if l.isV1() {
		file = "memory.memsw.limit_in_bytes"
	}
	_, err = os.Lstat(path.Join(g.dir(l.memory()), file))
	return err == nil, nil
}
