// Command sandboxctl scans packages in proven sandboxes, and says what this
// host can prove.
package main

import (
	"os"
)

func main() {
	a := &app{stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}
	os.Exit(a.main(os.Args[1:]))
}
