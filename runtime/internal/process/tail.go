package process

import (
	"strings"
	"sync"
)

// tail keeps the last bytes that were written to it.
type tail struct {
	mu   sync.Mutex
	buf  []byte
	size int
}

func newTail(size int) *tail {
	if size <= 0 {
		size = DefaultTail
	}
	return &tail{size: size}
}

// Write takes everything and never fails, so that whoever writes goes on.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(p) >= t.size {
		t.buf = append(t.buf[:0], p[len(p)-t.size:]...)
		return len(p), nil
	}
	if over := len(t.buf) + len(p) - t.size; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	t.buf = append(t.buf, p...)
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.buf), "\uFFFD")
}

// head keeps the first bytes that were written to it.
type head struct {
	mu   sync.Mutex
	buf  []byte
	size int
}

// Write takes everything and never fails, so that whoever writes goes on.
func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.buf = append(h.buf, p[:min(len(p), h.size-len(h.buf))]...)
	return len(p), nil
}

func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.ToValidUTF8(string(h.buf), "\uFFFD")
}
