package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/conformance/internal/attempt"
)

func init() {
	register(map[string]verb{
		"unix-abstract": unixAbstract,
		"abstract-take": abstractTake,
		"abstract-give": abstractGive,
	})
}

// landlocked says which version of Landlock this kernel has, 0 for none: from
// 6 on a process can be kept off abstract sockets that are not its own.
func landlocked(r *attempt.Report) {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		version = 0
	}
	r.Values = map[string][]string{"landlock": {strconv.Itoa(int(version))}}
}

// unixAbstract connects to abstract sockets: the suite's, and every one that
// /proc/net/unix shows. They live in the network namespace.
func unixAbstract(r *attempt.Report, args []string) {
	landlocked(r)
	names := append([]string{}, args...)
	if b, err := os.ReadFile("/proc/net/unix"); err == nil {
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) == 8 && strings.HasPrefix(f[7], "@") && len(names) < 20 {
				names = append(names, f[7])
			}
		}
	}
	for _, name := range names {
		conn, err := net.DialTimeout("unix", name, patience)
		if err == nil {
			_ = conn.Close()
		}
		got(r, "connect to "+name, err)
	}
}

// abstractTake waits at a name for somebody with a directory, and lists it.
func abstractTake(r *attempt.Report, args []string) {
	landlocked(r)
	until := deadline(args)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: args[0], Net: "unix"})
	if err != nil {
		r.Errno = errnoName(err)
		<-time.After(time.Until(until))
		return
	}
	defer func() { _ = l.Close() }()
	_ = l.SetDeadline(until)
	conn, err := l.AcceptUnix()
	if err != nil {
		r.Errno = netErrno(err)
		return
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(until)
	buf, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(buf, oob)
	dir, err := received(oob[:n], err)
	if err != nil {
		r.Errno = errnoName(err)
		return
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	got(r, fmt.Sprintf("list the other run's directory: %v", names), err)
	_, _ = conn.Write(buf)
}

// received is the directory that came with a message.
func received(oob []byte, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		if fds, err := unix.ParseUnixRights(&m); err == nil && len(fds) == 1 {
			return os.NewFile(uintptr(fds[0]), "the other run's"), nil
		}
	}
	return nil, errors.New("no descriptor came")
}

// abstractGive comes to a name with its work directory, until somebody takes it.
func abstractGive(r *attempt.Report, args []string) {
	landlocked(r)
	_ = os.WriteFile("given-"+strings.TrimPrefix(args[0], "@"), nil, 0o644)
	dir, err := os.Open(".")
	if err != nil {
		r.Errno = errnoName(err)
		return
	}
	defer dir.Close()
	var last error
	for until := deadline(args); time.Now().Before(until); <-time.After(20 * time.Millisecond) {
		if last = give(args[0], dir, until); last == nil {
			break
		}
	}
	got(r, "hand its work directory to whoever waits at "+args[0], last)
}

func give(name string, dir *os.File, until time.Time) error {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(until)
	if _, _, err := conn.WriteMsgUnix([]byte("x"), unix.UnixRights(int(dir.Fd())), nil); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

func deadline(args []string) time.Time {
	d, err := time.ParseDuration(args[1])
	if err != nil {
		d = time.Second
	}
	return time.Now().Add(d)
}
