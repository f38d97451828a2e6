package s3

import (
	"net/http"
	"sync"
	"time"
)

// skewCap is how far two clocks may be apart before that is worth a word. S3
// refuses requests that are signed more than 15 minutes off.
const skewCap = 5 * time.Minute

// clock is what a call has seen of its server's clock.
type clock struct {
	mu     sync.Mutex
	seen   bool
	offset time.Duration
}

type clockKey struct{}

// ahead is how far this host's clock is ahead of the server's.
func (c *clock) ahead() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.offset, c.seen
}

// clockReader notes the server's clock for the call that a request belongs to.
type clockReader struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t clockReader) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(r)
	c, ok := r.Context().Value(clockKey{}).(*clock)
	if err != nil || !ok {
		return response, err
	}
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		c.mu.Lock()
		c.seen, c.offset = true, time.Since(date)
		c.mu.Unlock()
	}
	return response, nil
}
