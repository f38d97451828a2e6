// Command program asks for the runtime without walls outside a test binary.
package main

import (
	"fmt"
	"os"

	"github.com/batleforc/batlehub-sandbox/runtime/none"
)

func main() {
	if _, err := none.New(none.Config{Unsafe: len(os.Args) > 1}); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("no walls")
}
