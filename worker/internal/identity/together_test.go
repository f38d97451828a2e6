package identity

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func TestManyStartsAtOnceShareNoID(t *testing.T) {
	p := place(t)
	for range 20 {
		var dead []*Worker
		for range 3 {
			dead = append(dead, take(t, p))
		}
		for _, w := range dead {
			killed(w)
		}
		var mu sync.Mutex
		var all sync.WaitGroup
		owners := map[string]int{}
		var living []*Worker
		for range 24 {
			all.Go(func() {
				w, err := p.Take()
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				living = append(living, w)
				for _, h := range w.held {
					owners[h.id]++
				}
			})
		}
		all.Wait()
		for id, n := range owners {
			if n != 1 {
				t.Errorf("%d workers have the id %s", n, id)
			}
		}
		for _, w := range dead {
			if owners[w.ID()] != 1 {
				t.Errorf("nobody answers for %s", w.ID())
			}
		}
		for _, w := range living {
			settled(t, w)
			w.Close(false)
		}
		if left := files(t, p); len(left) != 0 {
			t.Fatalf("left %q", left)
		}
	}
}

// process is a worker in a process of its own.
type process struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	id    string
	swept []string
}

func start(t *testing.T, dir string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.CommandContext(t.Context(), self)}
	p.cmd.Env = append(os.Environ(), workerVariable+"="+dir)
	p.cmd.Stderr = os.Stderr
	stdout, err := p.cmd.StdoutPipe()
	if err == nil {
		p.input, err = p.cmd.StdinPipe()
	}
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	words := strings.Fields(line)
	if err != nil || len(words) < 2 {
		t.Fatalf("a worker said %q: %v", line, err)
	}
	p.id, p.swept = words[0], words[1:]
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Signal(unix.SIGKILL)
	_ = p.cmd.Wait()
}

func (p *process) end(t *testing.T) {
	t.Helper()
	_ = p.input.Close()
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestTheIDsOfKilledProcessesAreTakenAgain(t *testing.T) {
	p := Place{Dir: filepath.Join(t.TempDir(), "workers")}
	first, second, living := start(t, p.Dir), start(t, p.Dir), start(t, p.Dir)
	first.kill()
	again := start(t, p.Dir)
	if again.id != first.id || !slices.Equal(again.swept, []string{first.id}) {
		t.Errorf("%s swept for %q, want %s", again.id, again.swept, first.id)
	}
	again.kill()
	second.kill()
	// The first of two starts answers for both.
	one, two := start(t, p.Dir), start(t, p.Dir)
	dead := []string{first.id, second.id}
	slices.Sort(dead)
	if slices.Sort(one.swept); !slices.Equal(one.swept, dead) || !slices.Contains(dead, one.id) {
		t.Errorf("%s swept for %q, want %q", one.id, one.swept, dead)
	}
	if slices.Contains(append(dead, one.id, living.id), two.id) || !slices.Equal(two.swept, []string{two.id}) {
		t.Errorf("%s swept for %q", two.id, two.swept)
	}
	one.end(t)
	two.end(t)
	if left := files(t, p); len(left) != 1 || !strings.HasSuffix(left[0], living.id) {
		t.Errorf("left %q, want that of %s", left, living.id)
	}
	living.end(t)
}

// Ten at a time start beside killed ones, in processes of their own.
func TestManyProcessesAtOnceShareNoID(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "workers")
	for range 3 {
		start(t, dir).kill()
		var mu sync.Mutex
		var all sync.WaitGroup
		owners, swept := map[string]int{}, map[string]int{}
		var living []*process
		for range 10 {
			all.Go(func() {
				p := start(t, dir)
				mu.Lock()
				defer mu.Unlock()
				living = append(living, p)
				owners[p.id]++
				for _, id := range p.swept {
					swept[id]++
				}
			})
		}
		all.Wait()
		for id, n := range owners {
			if n != 1 || swept[id] != 1 {
				t.Errorf("%d living workers have the id %s, and %d swept for it", n, id, swept[id])
			}
		}
		for _, p := range living {
			p.kill()
		}
	}
}
