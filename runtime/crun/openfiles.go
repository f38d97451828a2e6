package crun

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// fewestFiles is how many open files a sandbox can't be made without: those of
// the program while it starts, and then those of the agent.
const fewestFiles = 64

// openFiles is how many open files a sandbox can have where that is fewer than it
// is to have, and 0 elsewhere: only a privileged process may raise a hard limit,
// and a lower one is no weaker wall. Too few for any are a refusal.
func (h host) openFiles() (uint64, *sandbox.Error) {
	if h.mayRaise() {
		return 0, nil
	}
	hard, known := h.hardLimit("Max open files")
	switch {
	case !known || hard >= openFiles:
		return 0, nil
	case hard < fewestFiles:
		return 0, refusedLimit(fmt.Sprintf("the worker's hard limit of open files is %d, and a sandbox can't be made with fewer than %d", hard, fewestFiles))
	}
	return hard, nil
}

// mayRaise says whether this process may raise hard limits, or does not show it.
func (h host) mayRaise() bool {
	status, err := h.status()
	if err != nil {
		return true
	}
	effective, err := strconv.ParseUint(status["CapEff"], 16, 64)
	return err != nil || effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

func refusedLimit(detail string) *sandbox.Error {
	return &sandbox.Error{
		Kind: sandbox.Refused, Code: sandbox.CodeHostRefused, Detail: detail,
		Hint: fmt.Sprintf("raise it: ulimit -Hn %d, or in a systemd unit LimitNOFILE=%d", openFiles, openFiles),
	}
}

// hardLimit is one of this process's hard limits, if it has any.
func (h host) hardLimit(name string) (limit uint64, known bool) {
	b, err := os.ReadFile(h.path("/proc/self/limits"))
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(b)) {
		rest, is := strings.CutPrefix(line, name)
		fields := strings.Fields(rest)
		if !is || len(fields) < 2 {
			continue
		}
		limit, err := strconv.ParseUint(fields[1], 10, 64)
		return limit, err == nil
	}
	return 0, false
}
