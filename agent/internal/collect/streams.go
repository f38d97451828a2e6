package collect

import (
	"errors"
	"os"
	"strings"
	"sync"
	"time"
)

// Streams reads a scanner's stdout and stderr until both are closed.
type Streams struct {
	// Stdout and Stderr are the scanner's ends. Close them with Started once
	// the scanner has them.
	Stdout, Stderr *os.File

	ends  [2]*os.File
	out   capped
	err   tail
	group sync.WaitGroup
	fault chan any
}

// Open makes the two pipes. Of stdout at most limit bytes are kept, and over
// is called once when there is one more; of stderr the last tailCap.
func Open(limit, tailCap int, over func()) (*Streams, error) {
	s := &Streams{fault: make(chan any, 2)}
	s.out = capped{limit: limit, over: over}
	s.err = tail{limit: tailCap}
	var err error
	if s.ends[0], s.Stdout, err = os.Pipe(); err != nil {
		return nil, err
	}
	if s.ends[1], s.Stderr, err = os.Pipe(); err != nil {
		s.ends[0].Close()
		s.Stdout.Close()
		return nil, err
	}
	s.read(s.ends[0], &s.out)
	s.read(s.ends[1], &s.err)
	return s, nil
}

type sink interface{ take([]byte) }

func (s *Streams) read(f *os.File, to sink) {
	s.group.Go(func() {
		defer func() {
			if v := recover(); v != nil {
				s.fault <- v
			}
		}()
		b := make([]byte, 64<<10)
		for {
			n, err := f.Read(b)
			to.take(b[:n])
			if err != nil {
				return
			}
		}
	})
}

// Started closes the scanner's ends on this side.
func (s *Streams) Started() {
	s.Stdout.Close()
	s.Stderr.Close()
}

// drainBound is how long the pipes may still be held once every process of
// the run is gone. Only a descriptor that was passed out of the sandbox holds
// one at all.
const drainBound = 2 * time.Second

// Drain takes what is still in the pipes, once the run's processes are gone,
// and closes them. It waits for no writer.
func (s *Streams) Drain() Output {
	s.Started()
	deadline := time.Now().Add(drainBound)
	for _, f := range s.ends {
		// A pipe supports deadlines, and an error here only means waiting for
		// the end itself.
		_ = f.SetReadDeadline(deadline)
	}
	s.group.Wait()
	for _, f := range s.ends {
		f.Close()
	}
	select {
	case v := <-s.fault:
		panic(v)
	default:
	}
	return Output{
		Stdout: s.out.kept, StdoutBytes: s.out.count, Over: s.out.count > int64(s.out.limit),
		Stderr: s.err.text(), StderrBytes: s.err.count,
	}
}

// Output is what a scanner printed.
type Output struct {
	// Stdout is everything, or nothing that may be used when Over is set.
	Stdout []byte
	Over   bool
	// Stderr is the end, as valid UTF-8.
	Stderr string
	// StdoutBytes and StderrBytes count everything, kept or not.
	StdoutBytes, StderrBytes int64
}

// capped keeps up to limit bytes.
type capped struct {
	limit int
	kept  []byte
	count int64
	over  func()
}

func (c *capped) take(b []byte) {
	before := c.count
	c.count += int64(len(b))
	switch {
	case c.count <= int64(c.limit):
		c.kept = append(c.kept, b...)
	case before <= int64(c.limit):
		c.kept = nil
		c.over()
	}
}

// tail keeps the last limit bytes.
type tail struct {
	limit int
	kept  []byte
	count int64
}

func (t *tail) take(b []byte) {
	t.count += int64(len(b))
	if len(b) >= t.limit {
		t.kept = append(t.kept[:0], b[len(b)-t.limit:]...)
		return
	}
	if excess := len(t.kept) + len(b) - t.limit; excess > 0 {
		t.kept = append(t.kept[:0], t.kept[excess:]...)
	}
	t.kept = append(t.kept, b...)
}

// text is the tail with each run of bytes that is not UTF-8 replaced.
func (t *tail) text() string { return strings.ToValidUTF8(string(t.kept), "\uFFFD") }

// ErrPlace is a place that a result can't be written to.
var ErrPlace = errors.New("the result's place can't be written")
