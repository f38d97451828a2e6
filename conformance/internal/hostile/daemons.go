package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/conformance/internal/attempt"
)

func init() {
	register(map[string]verb{
		"forge-before":  forgeBefore,
		"forge-racing":  forgeRacing,
		"forge-loop":    forgeLoop,
		"out-fifo":      outIs(func(out string) error { return unix.Mkfifo(out, 0o666) }),
		"out-symlink":   outIs(func(out string) error { return os.Symlink("elsewhere", out) }),
		"out-host-link": outHostLink,
		"out-directory": outIs(func(out string) error { return os.MkdirAll(out+"/full/of/things", 0o700) }),
		"out-socket":    outIs(func(out string) error { _, err := net.Listen("unix", out); return err }),
		"work-closed":   workClosed,
		"daemon-and-hang": func(r *attempt.Report, args []string) {
			daemon(r, args)
			signal.Ignore()
			stay(time.Minute)
		},
	})
}

// places are where a result may go: the work directory, and the directory that
// some runtimes exchange bundle and result through.
var places = []string{"", "/bundle/"}

func signalIgnore(s syscall.Signal) { signal.Ignore(s) }

// detached starts this program again in a session of its own, unknown to
// anybody who only knows the parent.
func detached(args ...string) error {
	cmd := exec.Command(self(), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}

// daemon leaves children behind that hold nothing, in sessions of their own,
// named by a word that the suite looks for on the host afterwards.
func daemon(r *attempt.Report, args []string) {
	for range 3 {
		got(r, "leave a daemon", detached("ignore-all", args[0]))
	}
}

// ignoreAll is such a child: it ignores every signal it can, for a minute.
func ignoreAll(_ *attempt.Report, _ []string) {
	signal.Ignore()
	stay(time.Minute)
	os.Exit(0)
}

// stdoutHolder leaves a child that keeps stdout and stderr open, so that who
// reads them to their end would wait for it.
func stdoutHolder(r *attempt.Report, args []string) {
	cmd := exec.Command(self(), "ignore-all", args[0])
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	got(r, "leave a child that holds stdout", cmd.Start())
}

// forged is a result that says what a scanner would like to be believed.
func forged(args []string) []byte {
	b, err := os.ReadFile(args[0])
	if err != nil {
		return []byte("no result at all")
	}
	return b
}

// forgeBefore leaves a ready-made result where the agent's will go, then exits
// with a status that the forged one denies.
func forgeBefore(_ *attempt.Report, args []string) {
	for _, place := range places {
		_ = os.WriteFile(place+"out.tar", forged(args), 0o444)
	}
	fmt.Println("honest")
	os.Exit(7)
}

// forgeRacing leaves a daemon that writes the forged result again and again.
func forgeRacing(_ *attempt.Report, args []string) {
	for range 2 {
		_ = detached("forge-loop", args[0], args[1])
	}
	fmt.Println("honest")
	os.Exit(7)
}

func forgeLoop(_ *attempt.Report, args []string) {
	signal.Ignore()
	content := forged(args)
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		for _, place := range places {
			_ = os.WriteFile(place+"forging", content, 0o666)
			_ = os.Rename(place+"forging", place+"out.tar")
			_ = os.WriteFile(place+"out.tar", content, 0o666)
		}
	}
	os.Exit(0)
}

// outIs leaves something else than a file where the result will go.
func outIs(put func(out string) error) verb {
	return func(_ *attempt.Report, _ []string) {
		for _, place := range places {
			_ = os.Remove(place + "out.tar")
			if err := put(place + "out.tar"); err != nil {
				// Not being able to is a wall too; the suite sees it on stderr.
				fmt.Fprintln(os.Stderr, "nothing was put there:", errnoName(err))
			}
		}
		fmt.Println("honest")
		os.Exit(7)
	}
}

// outHostLink leaves links where the result, and files on the way to it, will
// go, which lead to a file of the host that it was told of.
func outHostLink(_ *attempt.Report, args []string) {
	for _, place := range places {
		_ = os.Remove(place + "out.tar")
		for _, name := range []string{"out.tar", "out.tar.tmp", ".out.tar", "out.tar.new", "result.json", "stdout", "manifest.json"} {
			_ = os.Symlink(args[0], place+name)
		}
	}
	fmt.Println("honest")
	os.Exit(7)
}

// workClosed takes all rights from the work directory itself.
func workClosed(_ *attempt.Report, _ []string) {
	_ = os.MkdirAll("a/b/c", 0o700)
	_ = os.Chmod("a/b", 0)
	_ = os.Chmod(".", 0)
	fmt.Println("honest")
	os.Exit(7)
}
