// Command inmate is what the heavy tests and benchmarks run inside a sandbox:
// it lists a tree, or does nothing at all.
package main

import (
	"fmt"
	"os"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/listing"
)

func main() {
	switch {
	case len(os.Args) == 3 && os.Args[1] == "list":
		if err := listing.Write(os.Stdout, os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "inmate:", err)
			os.Exit(1)
		}
	case len(os.Args) == 2 && os.Args[1] == "nothing":
	default:
		fmt.Fprintln(os.Stderr, "usage: inmate list DIR | inmate nothing")
		os.Exit(2)
	}
}
