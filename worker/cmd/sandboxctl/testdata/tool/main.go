// Command tool is what the tests run in a sandbox: a static program with a
// verb for each thing that a scanner may do.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	verb, args := os.Args[1], os.Args[2:]
	switch verb {
	case "echo":
		fmt.Print(strings.Join(args, "\n"))
	case "bytes":
		for i := range 256 {
			_, _ = os.Stdout.Write([]byte{byte(i)})
		}
	case "exit":
		fmt.Fprintln(os.Stderr, "leaving\x1b[31m")
		os.Exit(number(args[0]))
	case "complain":
		fmt.Fprintln(os.Stderr, args[0])
		os.Exit(1)
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.Signal(number(args[0])))
		select {}
	case "sleep":
		sleep(args[0])
	case "deaf":
		signal.Ignore()
		sleep(args[0])
	case "daemon":
		daemon(args[0])
	case "flood":
		b := make([]byte, 1<<20)
		for range number(args[0]) {
			_, _ = os.Stdout.Write(b)
		}
	case "fill":
		fill()
	case "forge":
		forge()
	case "cat":
		b, err := os.ReadFile(args[0])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		_, _ = os.Stdout.Write(b)
	}
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

func sleep(s string) {
	d, err := time.ParseDuration(s)
	if err != nil {
		panic(err)
	}
	fmt.Println("sleeping")
	time.Sleep(d)
}

// daemon leaves a process of another session behind and exits.
func daemon(s string) {
	_, err := syscall.ForkExec("/proc/self/exe", []string{"tool", "deaf", s}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Print("left one behind")
}

// fill writes until the disk or a limit stops it.
func fill() {
	b := make([]byte, 1<<20)
	for i := 0; ; i++ {
		f, err := os.Create(fmt.Sprintf("fill%d", i))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		for range 16 {
			if _, err := f.Write(b); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return
			}
		}
	}
}

// forge puts a result of its own where the agent's goes.
func forge() {
	_ = os.WriteFile("out.tar", []byte("all is well"), 0o600)
	fmt.Print("forged")
}
