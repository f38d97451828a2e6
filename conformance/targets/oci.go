package targets

import (
	"context"
	"errors"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

type ociWorker struct{}

func (w *ociWorker) runtime(context.Context) (sandbox.Runtime, error) {
	return nil, errors.New("not yet")
}
