package sandbox

import "context"

// JobCloser is implemented by runtimes that keep something for all runs of one
// job, such as an artifact that was uploaded once. Whoever has made the last
// run of a job closes it; what is never closed is removed by Close or swept.
type JobCloser interface {
	// CloseJob removes what is kept for the job of that worker. Closing a job
	// that keeps nothing is no error.
	CloseJob(ctx context.Context, worker, job string) error
}
