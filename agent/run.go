package agent

import "context"

// Run carries one run out: the manifest is fetched from in, the result is
// stored at out. It returns ExitStored when a result was stored.
func Run(ctx context.Context, in, out string, opts Options) ExitCode {
	return ExitInternal
}
