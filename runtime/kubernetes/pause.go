package kubernetes

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// transient says whether asking again may be answered differently: the server
// could not be reached, or is not able to answer now.
func transient(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
			apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsUnexpectedServerError(err) ||
			apierrors.IsConflict(err) || status.Status().Code >= 500
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded)
}

// The bounds of the time between two attempts.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 5 * time.Second
)

// pause is the time between attempts at something, which grows. Its zero value
// is ready.
type pause struct{ next time.Duration }

// sleep waits before the next attempt: at least for least, and for as long as
// the server asked for when it answered with err. It returns early with ctx's
// cause.
func (p *pause) sleep(ctx context.Context, least time.Duration, err error) error {
	d := max(p.next, least)
	if seconds, asked := apierrors.SuggestsClientDelay(err); asked && err != nil {
		d = max(d, time.Duration(seconds)*time.Second)
	}
	p.next = min(max(2*p.next, firstPause), lastPause)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
