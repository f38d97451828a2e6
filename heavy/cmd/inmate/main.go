// Command inmate is what the heavy tests and benchmarks run inside a sandbox:
// it lists a tree, at once or after a while, tries to get out, or does nothing
// at all.
package main

import (
	"fmt"
	"net"
	"os"
	"time"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/listing"
)

func main() {
	switch {
	case len(os.Args) == 3 && os.Args[1] == "list":
		list(os.Args[2])
	case len(os.Args) == 4 && os.Args[1] == "linger":
		linger(os.Args[2], os.Args[3])
	case len(os.Args) == 3 && os.Args[1] == "dial":
		dial(os.Args[2])
	case len(os.Args) == 3 && os.Args[1] == "reach":
		reach(os.Args[2])
	case len(os.Args) == 2 && os.Args[1] == "nothing":
	default:
		fmt.Fprintln(os.Stderr, "usage: inmate list DIR | inmate linger DURATION DIR | inmate dial ADDRESS | inmate reach ADDRESS | inmate nothing")
		os.Exit(2)
	}
}

func list(dir string) {
	if err := listing.Write(os.Stdout, dir); err != nil {
		fmt.Fprintln(os.Stderr, "inmate:", err)
		os.Exit(1)
	}
}

// linger makes a scanner that takes its time.
func linger(duration, dir string) {
	d, err := time.ParseDuration(duration)
	if err != nil {
		fmt.Fprintln(os.Stderr, "inmate:", err)
		os.Exit(2)
	}
	<-time.After(d)
	list(dir)
}

// dial says whether an address can be reached.
func dial(address string) {
	conn, err := net.DialTimeout("tcp", address, 3*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("connected")
	_ = conn.Close()
}

// reach tries an address until it is reached, for ten seconds.
func reach(address string) {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); <-time.After(20 * time.Millisecond) {
		conn, err := net.DialTimeout("tcp", address, 200*time.Millisecond)
		if err == nil {
			_ = conn.Close()
			return
		}
	}
	fmt.Fprintln(os.Stderr, "inmate: not reached:", address)
	os.Exit(1)
}
