// Command scanner is what the tests run inside a sandbox.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

func main() {
	switch os.Args[1] {
	case "look":
		look()
	case "shoot":
		shoot()
	case "daemons":
		daemons()
	case "linger":
		time.Sleep(time.Hour)
	}
}

// look prints what can be seen of the agent.
func look() {
	line, err := os.ReadFile("/proc/1/cmdline")
	fmt.Printf("cmdline %q %v\n", strings.Trim(string(line), "\x00"), err)
	for _, name := range []string{"environ", "mem", "maps", "fd/0", "root", "cwd", "exe"} {
		f, err := os.Open("/proc/1/" + name)
		if err == nil {
			_, err = f.Read(make([]byte, 1))
		}
		fmt.Printf("%s %v\n", name, err)
	}
	fmt.Printf("environ %q\n", os.Environ())
}

// shoot sends the agent every signal there is.
func shoot() {
	for s := 1; s <= 64; s++ {
		for range 3 {
			_ = syscall.Kill(1, syscall.Signal(s))
		}
	}
	fmt.Println("shot")
}

// daemons leaves processes behind that hold everything they can.
func daemons() {
	for range 20 {
		c := exec.Command("/usr/bin/scanner", "linger")
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := c.Start(); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("left")
}
