package launch

import (
	"context"
	"errors"
	"os"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// Spec is one scanner to start.
type Spec struct {
	// Argv is executed directly, without a shell.
	Argv []string
	// Dir is the working directory.
	Dir string
	// Home and Path are the whole environment: HOME and PATH.
	Home, Path string
	// Limits are set on the scanner alone.
	Limits wire.Limits
	// Stdout and Stderr are the scanner's; stdin is /dev/null.
	Stdout, Stderr *os.File
	// Namespace says that the caller is pid 1 of its own pid namespace.
	Namespace bool
}

// Process is a started scanner.
type Process struct{}

// Start starts the scanner. An error that a program file itself caused wraps
// ErrNotFound or ErrNotExecutable.
func Start(ctx context.Context, spec Spec) (*Process, error) { return nil, errors.ErrUnsupported }

// What can be wrong with the program that is to be started.
var (
	ErrNotFound      = errors.New("the program does not exist")
	ErrNotExecutable = errors.New("the program can't be executed")
)
