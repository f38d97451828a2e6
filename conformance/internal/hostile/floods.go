package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/conformance/internal/attempt"
)

func init() {
	register(map[string]verb{
		"fork-bomb":     forkBomb,
		"sleeper":       func(_ *attempt.Report, args []string) { stay(duration(args[0])) },
		"stand-in":      func(*attempt.Report, []string) { _, _ = io.Copy(io.Discard, os.Stdin); os.Exit(0) },
		"memory":        memory,
		"disk":          disk,
		"disk-many":     diskMany,
		"stdout":        stdoutFlood,
		"stderr":        stderrFlood,
		"open-files":    openFiles,
		"burn-cpu":      burnCPU,
		"hang":          hang,
		"threads":       threads,
		"exit":          exit,
		"kill-self":     killSelf,
		"print":         printArgs,
		"bytes":         printBytes,
		"cat":           cat,
		"close-stdout":  closeStdout,
		"daemon":        daemon,
		"ignore-all":    ignoreAll,
		"stdout-holder": stdoutHolder,
	})
}

// forkBomb starts processes that stay, up to a bound of its own, and says how
// many it got. The bound keeps it harmless where nothing stops it.
func forkBomb(r *attempt.Report, args []string) {
	limit := atoi(args[0])
	// A bomb's own memory must not be what ends it.
	started := 0
	for range limit {
		cmd := exec.Command(self(), "sleeper", "20s")
		if err := cmd.Start(); err != nil {
			r.Errno = errnoName(err)
			break
		}
		started++
	}
	r.Achieved = started == limit
	r.Detail = fmt.Sprintf("%d of %d processes", started, limit)
}

// memory touches memory in steps until it is refused, or its own bound comes.
// Being killed for it is the other good end.
func memory(r *attempt.Report, args []string) {
	debug.SetGCPercent(-1)
	limit, step := atoi(args[0]), 16
	for taken := 0; taken < limit; taken += step {
		b, err := unix.Mmap(-1, 0, step<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			r.Errno, r.Detail = errnoName(err), fmt.Sprintf("refused after %d MiB", taken)
			return
		}
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
	}
	r.Achieved, r.Detail = true, fmt.Sprintf("took %d MiB", limit)
}

// disk writes one file until it is refused or its own bound comes.
func disk(r *attempt.Report, args []string) {
	limit := atoi(args[0])
	signalIgnore(unix.SIGXFSZ)
	fd, err := unix.Open("flood", unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		r.Errno = errnoName(err)
		return
	}
	block := fill(1<<20, 'x')
	written := 0
	for ; written < limit<<20; written += len(block) {
		n, err := unix.Write(fd, block)
		if err == nil && n < len(block) {
			err = unix.EFBIG
		}
		if err != nil {
			r.Errno = errnoName(err)
			break
		}
	}
	_ = unix.Close(fd)
	_ = os.Remove("flood")
	r.Achieved = written >= limit<<20
	r.Detail = fmt.Sprintf("wrote %d MiB", written>>20)
}

// diskMany leaves many files and deep directories behind for whoever cleans up.
func diskMany(r *attempt.Report, args []string) {
	for i := range atoi(args[0]) {
		if err := os.WriteFile(fmt.Sprintf("file-%d", i), []byte("x"), 0o000); err != nil {
			r.Errno = errnoName(err)
			return
		}
	}
	dir := "."
	for range 200 {
		dir += "/deep"
		if err := os.Mkdir(dir, 0o700); err != nil {
			break
		}
	}
	for _, mode := range []os.FileMode{0o000, 0o500} {
		name := fmt.Sprintf("closed-%o", mode)
		_ = os.MkdirAll(name+"/inner", 0o700)
		_ = os.WriteFile(name+"/inner/file", []byte("x"), 0o400)
		_ = os.Chmod(name+"/inner", mode)
		_ = os.Chmod(name, mode)
	}
	r.Achieved = true
}

// stdoutFlood prints a number of bytes, and its report to stderr.
func stdoutFlood(r *attempt.Report, args []string) {
	signalIgnore(unix.SIGPIPE)
	left := atoi(args[0])
	block := fill(64<<10, 'o')
	for left > 0 {
		n, err := os.Stdout.Write(block[:min(left, len(block))])
		left -= n
		if err != nil {
			fmt.Fprintf(os.Stderr, "stdout ended: %s\n", errnoName(err))
			break
		}
	}
	os.Exit(0)
}

func stderrFlood(r *attempt.Report, args []string) {
	block := fill(64<<10, 'e')
	for left := atoi(args[0]); left > 0; left -= len(block) {
		if _, err := os.Stderr.Write(block); err != nil {
			break
		}
	}
	_, _ = os.Stderr.WriteString("\nthe last words\n")
	r.Achieved = true
}

func openFiles(r *attempt.Report, args []string) {
	limit := atoi(args[0])
	opened := 0
	for opened < limit {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
			r.Errno = errnoName(err)
			break
		}
		opened++
	}
	r.Achieved = opened == limit
	r.Detail = fmt.Sprintf("%d of %d descriptors", opened, limit)
	// Back to where a report can be written.
	for fd := 3 + 10; fd < limit+20; fd++ {
		_ = unix.Close(fd)
	}
}

// burnCPU computes until it is killed, or its own bound comes.
func burnCPU(r *attempt.Report, args []string) {
	end := time.Now().Add(duration(args[0]))
	for x := uint64(1); ; x = x*6364136223846793005 + 1 {
		if x%1_000_003 == 0 && time.Now().After(end) {
			break
		}
	}
	r.Achieved, r.Detail = true, "was never stopped"
}

// hang waits for longer than any run may take; its own bound is a backstop.
func hang(r *attempt.Report, args []string) {
	limit := 2 * time.Minute
	if len(args) > 0 && duration(args[0]) > 0 {
		limit = duration(args[0])
	}
	stay(limit)
	r.Achieved = true
}

// threads starts threads of the operating system, as every runtime does.
func threads(r *attempt.Report, _ []string) {
	const count = 16
	done := make(chan int, count)
	for range count {
		go func() {
			runtime.LockOSThread()
			done <- unix.Gettid()
			stay(10 * time.Millisecond)
		}()
	}
	ids := map[int]bool{}
	for range count {
		ids[<-done] = true
	}
	r.Achieved, r.Detail = len(ids) > 1, fmt.Sprintf("%d threads", len(ids))
}

func exit(_ *attempt.Report, args []string) { os.Exit(atoi(args[0])) }

func killSelf(_ *attempt.Report, args []string) {
	_ = raw(unix.SYS_TGKILL, uintptr(os.Getpid()), uintptr(os.Getpid()), uintptr(atoi(args[0])))
	_ = unix.Kill(os.Getpid(), unix.Signal(atoi(args[0])))
	stay(10 * time.Second)
}

// printArgs prints its arguments to stdout and the first also to stderr.
func printArgs(_ *attempt.Report, args []string) {
	for i, a := range args {
		fmt.Println(a)
		if i == 0 {
			fmt.Fprintln(os.Stderr, a)
		}
	}
	os.Exit(0)
}

// printBytes prints every byte value, then a number of them again, and exits.
func printBytes(_ *attempt.Report, args []string) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for range atoi(args[0]) {
		_, _ = os.Stdout.Write(all)
	}
	os.Exit(0)
}

// cat prints the named files and nothing else.
func cat(_ *attempt.Report, args []string) {
	for _, name := range args {
		b, err := os.ReadFile(name)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		_, _ = os.Stdout.Write(b)
	}
	os.Exit(0)
}

// closeStdout closes its outputs and goes on working for a while.
func closeStdout(_ *attempt.Report, args []string) {
	fmt.Println("before")
	_ = unix.Close(1)
	_ = unix.Close(2)
	stay(duration(args[0]))
	os.Exit(5)
}
