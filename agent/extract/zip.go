package extract

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// zipWorkersMost is how many members are inflated at a time. Each has buffers
// of its own, and the disk is one.
const zipWorkersMost = 4

// zipJob is a member whose place is claimed.
type zipJob struct {
	index int
	m     *zipMember
	p     *place
}

// zipRun is the extraction of one zip. Names are claimed in the directory's
// order by one goroutine; contents are inflated and written by several.
type zipRun struct {
	s    *sink
	src  *file
	jobs chan zipJob
	inf  *inflater
	wg   sync.WaitGroup

	pending sync.WaitGroup // jobs handed out and not done

	mu     sync.Mutex
	failed atomic.Bool
	at     int // the first member that failed, so that the answer is the same each time
	err    error
}

func readZip(ctx context.Context, s *sink, src *file) error {
	end, err := findZipEnd(src)
	if err != nil {
		return err
	}
	members, err := readDirectory(ctx, s, src, end)
	if err != nil {
		return err
	}
	if err := ratioFault(s.x, members); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	z := &zipRun{s: s, src: src, jobs: make(chan zipJob, 64)}
	for range min(runtime.GOMAXPROCS(0), zipWorkersMost, max(len(members)/8, 1)) {
		z.wg.Add(1)
		go z.work(ctx)
	}
	for i := range members {
		if z.failed.Load() || ctx.Err() != nil {
			break
		}
		if err := z.lay(ctx, i, &members[i]); err != nil {
			z.fail(i, err)
		}
	}
	close(z.jobs)
	z.wg.Wait()
	if z.err == nil {
		return context.Cause(ctx)
	}
	return z.err
}

// targets returns the decoder of symbolic links' targets, made when the first
// is met.
func (z *zipRun) targets() *inflater {
	if z.inf == nil {
		z.inf = newInflater()
	}
	return z.inf
}

// ratioFault judges growth by the declared sizes, which no member may pass.
// The members count as one stream, as they would in a tar.gz, whatever their
// order: one disk image full of zeros in a large package is no bomb. A refusal
// names the member that grows the most.
func ratioFault(x *Extractor, members []zipMember) error {
	var in, out int64
	worst := 0
	for i := range members {
		m := &members[i]
		in += m.compressed
		out = min(out+min(m.size, 1<<50), 1<<62)
		if m.size-m.compressed > members[worst].size-members[worst].compressed {
			worst = i
		}
	}
	if ratioPassed(x.policy, in, out) {
		return refuse(members[worst].name, RuleLimitRatio, fmt.Sprintf("%d bytes become %d, want at most %d times as many", in, out, x.policy.MaxRatio))
	}
	return nil
}

func (z *zipRun) fail(i int, err error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.err == nil || i < z.at {
		z.at, z.err = i, err
	}
	z.failed.Store(true)
}

// lay claims a member's place and hands its content to a worker.
func (z *zipRun) lay(ctx context.Context, i int, m *zipMember) error {
	k, err := m.kindOf()
	if err != nil {
		return err
	}
	h := &header{name: m.name, size: m.size, mode: m.mode() & 0o7777}
	if z.s.x.policy.Duplicates == wire.ClashReplace || z.s.x.policy.CaseClash == wire.ClashReplace {
		// What a claim removes must be there by then.
		z.pending.Wait()
	}
	switch k {
	case kindDir:
		if err := z.hand(ctx, zipJob{i, m, nil}); err != nil {
			return err
		}
		return z.s.directory(h)
	case kindSymlink:
		if m.size > z.s.x.policy.MaxPathBytes {
			return refuse(m.name, RuleSymlinkTarget, fmt.Sprintf("the target has %d bytes, want at most %d", m.size, z.s.x.policy.MaxPathBytes))
		}
		target, err := z.targets().member(z.src, m)
		if err != nil {
			return err
		}
		h.target = string(target)
		return z.s.symlink(h, true)
	}
	p, err := z.s.file(h)
	if err != nil {
		return err
	}
	return z.hand(ctx, zipJob{i, m, p})
}

func (z *zipRun) hand(ctx context.Context, j zipJob) error {
	z.pending.Add(1)
	select {
	case z.jobs <- j:
		return nil
	case <-ctx.Done():
		z.pending.Done()
		return context.Cause(ctx)
	}
}

func (z *zipRun) work(ctx context.Context) {
	defer z.wg.Done()
	inf := newInflater()
	for j := range z.jobs {
		// After a failure only earlier members matter, and those were
		// handed out before it.
		if err := z.do(ctx, inf, j); err != nil {
			z.fail(j.index, err)
		}
		z.pending.Done()
	}
}

func (z *zipRun) do(ctx context.Context, inf *inflater, j zipJob) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	z.mu.Lock()
	late := z.err != nil && j.index > z.at
	z.mu.Unlock()
	if late {
		return nil
	}
	x := z.s.x
	if j.p == nil || j.m.span <= smallSpan && j.m.size <= smallSize {
		content, err := inf.member(z.src, j.m)
		if err != nil || j.p == nil {
			return err
		}
		return x.tree.writeFile(j.p, content)
	}
	fd, err := x.tree.create(j.p)
	if err != nil {
		return err
	}
	err = inf.stream(ctx, z.src, j.m, func(b []byte) error { return writeAll(fd, j.p, b) })
	if closed := closeFile(fd, j.p); err == nil {
		err = closed
	}
	if err == nil {
		x.wrote(j.m.size)
	}
	return err
}
