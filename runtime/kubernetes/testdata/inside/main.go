// Command inside is a worker in a pod, as far as it connects to its cluster and
// looks at what a run needs there. It prints what it found.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/kubernetes"
)

func main() {
	api, namespace, err := kubernetes.Connect("")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("namespace", namespace)
	// A network plugin may let a pod wait for its network.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	found := kubernetes.Examine(ctx, kubernetes.Config{API: api, Namespace: namespace})
	for tick := time.Tick(time.Second); len(found) == 1 && ctx.Err() == nil; <-tick {
		found = kubernetes.Examine(ctx, kubernetes.Config{API: api, Namespace: namespace})
	}
	for _, a := range found {
		if a.Fault != nil {
			fmt.Println(a.Name, a.Fault)
			os.Exit(1)
		}
		fmt.Println(a.Name, "holds")
	}
}
