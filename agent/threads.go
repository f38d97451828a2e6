package agent

import (
	"runtime"
	"sync"

	"github.com/batleforc/batlehub-sandbox/agent/internal/reap"
)

// The threads that the agent has once the scanner runs. A scanner may take all
// that its sandbox may have, and Go ends a program that gets none when it wants
// one. What is idle is used before any is made.
const (
	// parallel is on how many CPUs the agent goes on: Go may want a thread for
	// each at any time, if only to collect garbage.
	parallel = 4
	// inKernel is how many of its threads may be in the kernel meanwhile, such as
	// the one that waits for the scanner.
	inKernel = 4
)

// keepThreads sees to it that the agent has the threads it needs, where it is
// the first process of a sandbox. Elsewhere it is part of another program.
func (r *run) keepThreads() {
	if !r.opts.Namespace || !reap.IsInit() {
		return
	}
	if runtime.GOMAXPROCS(0) > parallel {
		runtime.GOMAXPROCS(parallel)
	}
	idleThreads(parallel + inKernel)
}

// idleThreads has so many threads idle at once.
func idleThreads(n int) {
	var there, gone sync.WaitGroup
	there.Add(n)
	end := make(chan struct{})
	for range n {
		gone.Go(func() {
			runtime.LockOSThread()
			there.Done()
			<-end
			runtime.UnlockOSThread()
		})
	}
	there.Wait()
	close(end)
	gone.Wait()
}
