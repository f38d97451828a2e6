package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/conformance/internal/attempt"
)

// verb is one attempt. It fills in the report; args are what came behind the
// verb's name.
type verb func(r *attempt.Report, args []string)

var verbs = map[string]verb{}

// register adds verbs; a name given twice is a mistake of ours.
func register(list map[string]verb) {
	for name, v := range list {
		if verbs[name] != nil {
			panic("two verbs are named " + name)
		}
		verbs[name] = v
	}
}

func main() {
	if len(os.Args) < 2 || verbs[os.Args[1]] == nil {
		names := make([]string, 0, len(verbs))
		for name := range verbs {
			names = append(names, name)
		}
		sort.Strings(names)
		fmt.Fprintf(os.Stderr, "usage: hostile VERB [ARG...]\nverbs: %v\n", names)
		os.Exit(2)
	}
	r := attempt.Report{Verb: os.Args[1], From: bootNanos()}
	verbs[os.Args[1]](&r, os.Args[2:])
	emit(r)
}

func emit(r attempt.Report) {
	r.Until = bootNanos()
	line, err := json.Marshal(r)
	if err != nil {
		line = fmt.Appendf(nil, `{"verb":%q,"detail":"the report does not encode"}`, r.Verb)
	}
	if _, err := os.Stdout.Write(append(line, '\n')); err != nil {
		os.Exit(3)
	}
}

func bootNanos() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0
	}
	return ts.Nano()
}

// errnoName is the name of err's errno, "" for nil.
func errnoName(err error) string {
	if err == nil {
		return ""
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		if errno == 0 {
			return ""
		}
		if name := unix.ErrnoName(errno); name != "" {
			return name
		}
	}
	return err.Error()
}

// got records a call that decides the attempt by succeeding.
func got(r *attempt.Report, what string, err error) {
	r.Calls = append(r.Calls, attempt.Call{Name: what, Errno: errnoName(err)})
	if err == nil {
		r.Achieved = true
		if r.Detail != "" {
			r.Detail += "; "
		}
		r.Detail += what
		return
	}
	if r.Errno == "" {
		r.Errno = errnoName(err)
	}
}

// raw makes a system call and returns its errno as an error, nil on success.
func raw(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}
