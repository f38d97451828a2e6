package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// Outgrown is how a process fared that took more memory than it may.
type Outgrown struct {
	// Stopped says that something ended it before it had what it wanted.
	Stopped bool
	// TouchedMB is how many MiB it had written to by then.
	TouchedMB int64
	// How is what ended it: a signal or an errno.
	How string
}

// memoryBound is how long the process may take. Writing 2 GiB takes about a
// second; a room that swaps instead of stopping it is not a wall.
const memoryBound = time.Minute

// memoryWall: where the runtime claims a wall, a process runs into it. That it
// was refused memory would say nothing of the sandbox's wall, which holds for
// all processes together: a limit of its own does that too.
func (p *probe) memoryWall(ctx context.Context) (wire.Outcome, string) {
	limit := p.manifest.Limits.MemoryMB
	if !p.request.MemoryWall {
		return wire.NotClaimed, "this runtime claims no memory wall of the whole sandbox"
	}
	before, counted := p.Kills()
	o, err := p.Outgrow(ctx, limit)
	after, _ := p.Kills()
	switch {
	case err != nil:
		return fail("trying the wall at %d MiB: %v", limit, err)
	case !o.Stopped:
		return fail("a child wrote to %d MiB and nothing stopped it at %d MiB", o.TouchedMB, limit)
	case o.How != killed:
		return fail("a child was stopped by %s at %d of %d MiB, and so by a limit of its own and not by the sandbox's", o.How, o.TouchedMB, limit)
	case counted && after <= before:
		return fail("a child was stopped by %s at %d of %d MiB, but the sandbox's cgroup counts no process that was killed for want of memory",
			o.How, o.TouchedMB, limit)
	case !counted:
		return pass("a child was stopped by %s at %d of %d MiB", o.How, o.TouchedMB, limit)
	}
	return pass("a child was stopped by %s at %d of %d MiB, as the sandbox's cgroup counts", o.How, o.TouchedMB, limit)
}

// killed is how a process ends that runs into a wall around all processes.
const killed = "SIGKILL"

const (
	// markerMemory is the argv[0] that makes this program the process that
	// outgrows a limit. Nothing else selects it.
	markerMemory = "batlehub-sandbox: memory"
	// memoryStep is how much it takes at a time, memoryExcess how far beyond the limit it goes
	// at most, in MiB: the kernel charges in batches, so a little more than
	// the limit may pass.
	memoryStep, memoryExcess = 8, 64
	// memoryRefused is its status when it was refused more.
	memoryRefused = 3
)

func init() {
	if len(os.Args) == 2 && os.Args[0] == markerMemory {
		limit, err := strconv.ParseInt(os.Args[1], 10, 64)
		if err != nil {
			os.Exit(2)
		}
		outgrowHere(limit)
	}
}

// outgrowHere writes to memory, step by step, until it is past limit MiB,
// and says after each step how far it is.
func outgrowHere(limit int64) {
	// Whatever runs out of memory with it, this process is the one to end.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	page := int64(os.Getpagesize())
	for touched := int64(0); touched < limit+memoryExcess; {
		b, err := unix.Mmap(-1, 0, memoryStep<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			os.Exit(memoryRefused)
		}
		for i := int64(0); i < memoryStep<<20; i += page {
			b[i] = byte(i/page) | 1
		}
		touched += memoryStep
		if _, err := syscall.Write(1, binary.LittleEndian.AppendUint64(nil, uint64(touched))); err != nil {
			os.Exit(2)
		}
	}
	os.Exit(0)
}

// outgrow starts this program again to take more than limit MiB, and reports
// what became of it. It is bounded in memory, by the limit and a little more,
// and in time.
func outgrow(ctx context.Context, limit int64) (Outgrown, error) {
	ctx, cancel := context.WithTimeout(ctx, memoryBound)
	defer cancel()
	read, write, err := os.Pipe()
	if err != nil {
		return Outgrown{}, err
	}
	defer read.Close()
	// The child is to die with the thread that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	child, err := os.StartProcess("/proc/self/exe", []string{markerMemory, strconv.FormatInt(limit, 10)}, &os.ProcAttr{
		Env: []string{}, Files: []*os.File{nil, write, nil}, Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	})
	write.Close()
	if err != nil {
		return Outgrown{}, fmt.Errorf("starting a child: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = child.Kill() })
	touched := lastStep(read)
	state, err := child.Wait()
	if !stop() {
		return Outgrown{}, fmt.Errorf("the child was at %d MiB: %w", touched, ctx.Err())
	}
	if err != nil {
		return Outgrown{}, fmt.Errorf("waiting for the child: %w", err)
	}
	return ending(state.Sys().(syscall.WaitStatus), touched)
}

// lastStep reads the child's steps to the end and returns the last one.
func lastStep(r io.Reader) int64 {
	var step [8]byte
	var last int64
	for {
		if _, err := io.ReadFull(r, step[:]); err != nil {
			return last
		}
		last = int64(binary.LittleEndian.Uint64(step[:]))
	}
}

// ending reads the child's wait status.
func ending(status syscall.WaitStatus, touched int64) (Outgrown, error) {
	o := Outgrown{TouchedMB: touched}
	switch {
	case status.Signaled() && status.Signal() == syscall.SIGKILL:
		o.Stopped, o.How = true, killed
	case status.Exited() && status.ExitStatus() == memoryRefused:
		o.Stopped, o.How = true, "ENOMEM"
	case status.Exited() && status.ExitStatus() == 0:
	case touched == 0:
		return o, errors.New("the child ended before it began")
	default:
		return o, fmt.Errorf("the child ended with wait status %#x", uint32(status))
	}
	return o, nil
}
