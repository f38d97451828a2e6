package ui

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// Patience is how long something may take before a terminal is told about it.
const Patience = 2 * time.Second

// Progress shows what is being done, on one line of a terminal that it wipes
// again. In a pipe or a file it shows nothing. Its zero value shows nothing.
type Progress struct {
	file *os.File
	mu   sync.Mutex
	stop chan struct{}
	done chan struct{}
}

// NewProgress returns a progress on file, which is stderr.
func NewProgress(file *os.File) *Progress {
	if !term.IsTerminal(int(file.Fd())) {
		return &Progress{}
	}
	return &Progress{file: file}
}

// Start says what begins now; whatever was shown before ends.
func (p *Progress) Start(what string) {
	p.Stop()
	if p.file == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop, p.done = make(chan struct{}), make(chan struct{})
	go p.show(Clean(what), time.Now(), p.stop, p.done)
}

// Stop wipes the line. It returns when the terminal is free for other output.
func (p *Progress) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stop == nil {
		return
	}
	close(p.stop)
	<-p.done
	p.stop = nil
}

func (p *Progress) show(what string, begun time.Time, stop, done chan struct{}) {
	defer close(done)
	next := time.NewTimer(Patience)
	defer next.Stop()
	shown := false
	for {
		select {
		case <-stop:
			if shown {
				fmt.Fprint(p.file, "\r\x1b[K")
			}
			return
		case <-next.C:
			shown = true
			fmt.Fprintf(p.file, "\r\x1b[K%s … %ds", what, int(time.Since(begun).Seconds()))
			next.Reset(time.Second)
		}
	}
}
