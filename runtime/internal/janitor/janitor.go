package janitor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/process"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/rmtree"
)

// Marker is the argv[0] of the janitor's process.
const Marker = "batlehub-sandbox-janitor"

// Janitor watches over directories. Its zero value is ready; its process is
// started by the first Add.
type Janitor struct {
	mu     sync.Mutex
	paths  map[string]bool
	pipe   io.WriteCloser
	cmd    *exec.Cmd
	closed bool
}

// Add has path, absolute, removed should this process die. It is called before
// the directory is made.
func (j *Janitor) Add(path string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return os.ErrClosed
	}
	if j.paths == nil {
		j.paths = make(map[string]bool)
	}
	j.paths[path] = true
	return j.tell('+', path)
}

// Done says that path is gone.
func (j *Janitor) Done(path string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.paths, path)
	if j.pipe != nil {
		// A janitor that can't be told finds nothing at path: names are never
		// used twice.
		_ = j.tell('-', path)
	}
}

// Close ends the janitor's process. Whatever was added and never done is
// removed first.
func (j *Janitor) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	if err := j.stop(); err == nil {
		return nil
	}
	// It was killed, or could not remove everything in its time.
	var faults []error
	for path := range j.paths {
		faults = append(faults, rmtree.Remove(path))
	}
	return errors.Join(faults...)
}

// tell writes one line, through a new process if the last one is gone.
func (j *Janitor) tell(verb byte, path string) error {
	if j.pipe != nil {
		if _, err := io.WriteString(j.pipe, line(verb, path)); err == nil {
			return nil
		}
		_ = j.stop()
	}
	if err := j.start(); err != nil {
		return fmt.Errorf("starting the janitor: %w", err)
	}
	for p := range j.paths {
		if _, err := io.WriteString(j.pipe, line('+', p)); err != nil {
			return fmt.Errorf("telling the janitor: %w", err)
		}
	}
	return nil
}

// line is one message. Quoting keeps a path of any bytes on one line.
func line(verb byte, path string) string { return string(verb) + strconv.Quote(path) + "\n" }

func (j *Janitor) start() error {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{Marker}
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	process.KeepDescriptors()
	if err := cmd.Start(); err != nil {
		return err
	}
	j.cmd, j.pipe = cmd, pipe
	return nil
}

func (j *Janitor) stop() error {
	if j.cmd == nil {
		return nil
	}
	_ = j.pipe.Close()
	err := j.cmd.Wait()
	j.cmd, j.pipe = nil, nil
	return err
}
