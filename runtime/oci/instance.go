package oci

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// The labels of containers and networks, by which a sweep knows them.
const (
	LabelWorker  = "io.batlehub.worker"
	LabelJob     = "io.batlehub.job"
	LabelScanner = "io.batlehub.scanner"
	// LabelDeadline is when the run is over at the latest, in seconds since
	// 1970.
	LabelDeadline = "io.batlehub.deadline"
)

// namePrefix begins the name of every container and network.
const namePrefix = "batlehub-sbx-"

// ContainerName is the name of a run's container, and of its network if it
// has one of its own.
func ContainerName(l wire.Label) string { return namePrefix + l.String() }

func labels(l wire.Label, deadline time.Time) []string {
	return []string{
		"--label", LabelWorker + "=" + l.Worker,
		"--label", LabelJob + "=" + l.Job,
		"--label", LabelScanner + "=" + l.Scanner,
		"--label", LabelDeadline + "=" + strconv.FormatInt(deadline.Unix(), 10),
	}
}

// names are the containers of this runtime that are in flight. Its zero value
// is ready.
type names struct {
	mu    sync.Mutex
	taken map[string]bool
}

// claim takes a name until release is called. A name is a run's own: whoever
// came second would end the first one's container.
func (n *names) claim(name string) (release func(), fault *sandbox.Error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.taken[name] {
		return nil, &sandbox.Error{
			Kind: sandbox.Refused, Code: sandbox.CodeConfig,
			Detail: fmt.Sprintf("a run with the container %s is in flight", name), Hint: "count the attempt up",
		}
	}
	if n.taken == nil {
		n.taken = make(map[string]bool)
	}
	n.taken[name] = true
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.taken, name)
	}, nil
}

func (n *names) has(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.taken[name]
}
