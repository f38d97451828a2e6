package agent

import (
	"os"
	"sync"
	"syscall"
	"testing"
)

func TestThreadsThatWereMadeAheadAreUsedBeforeOthersAreMade(t *testing.T) {
	threads := func() int {
		t.Helper()
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		return len(tasks)
	}
	// All that there are already, and some.
	ahead := threads() + 12
	idleThreads(ahead)
	made := threads()
	if made < ahead {
		t.Fatalf("there are %d threads, want %d", made, ahead)
	}
	var read, write [8]int
	var waiting, begun sync.WaitGroup
	begun.Add(len(read))
	for i := range read {
		var fds [2]int
		if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		read[i], write[i] = fds[0], fds[1]
		waiting.Go(func() {
			var b [1]byte
			begun.Done()
			_, _ = syscall.Read(read[i], b[:])
			_ = syscall.Close(read[i])
		})
	}
	begun.Wait()
	reading := threads()
	for _, fd := range write {
		_ = syscall.Close(fd)
	}
	waiting.Wait()
	if reading > made {
		t.Errorf("%d threads while %d of them read, %d before", reading, len(read), made)
	}
}
