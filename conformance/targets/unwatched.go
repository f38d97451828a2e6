package targets

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// janitor is the name (argv[0]) of the process that ends and removes what a
// killed worker leaves.
const janitor = "batlehub-sandbox-janitor"

// killJanitor kills this process's janitor once there is a run directory below
// runs, which it has been told of by then: what a mutant takes from a sandbox's
// death it would make good.
func killJanitor(ctx context.Context, runs string) {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for ctx.Err() == nil {
		if entries, err := os.ReadDir(runs); err == nil && len(entries) > 0 {
			if pid, ok := childNamed(janitor); ok {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				return
			}
		}
		<-look.C
	}
}

// childNamed is the child of this process that has that name.
func childNamed(name string) (pid int, ok bool) {
	lists, err := filepath.Glob("/proc/self/task/[0-9]*/children")
	if err != nil {
		return 0, false
	}
	for _, list := range lists {
		children, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for child := range strings.FieldsSeq(string(children)) {
			line, err := os.ReadFile(fmt.Sprintf("/proc/%s/cmdline", child))
			if err != nil || !strings.HasPrefix(string(line), name+"\x00") {
				continue
			}
			pid, err := strconv.Atoi(child)
			return pid, err == nil
		}
	}
	return 0, false
}
