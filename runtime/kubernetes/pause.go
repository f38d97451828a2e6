package kubernetes

import (
	"context"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// transient says whether asking again may be answered differently: the server
// could not be reached, or is not able to answer now. What is no Status of an
// API server's is no answer of one, whoever sent it.
func transient(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return err != nil
	}
	return apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsConflict(err) || status.Status().Code >= http.StatusInternalServerError || unread(err)
}

// unread says whether an error is made of an answer's HTTP status alone, for
// there is no Status in it: something between here and the API server sent it.
func unread(err error) bool { return apierrors.IsUnexpectedServerError(err) }

// notFound says that the API server itself knows of no such pod.
func notFound(err error) bool { return apierrors.IsNotFound(err) && !unread(err) }

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
