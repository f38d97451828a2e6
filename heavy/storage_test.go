package heavy

import (
	"errors"
	"testing"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/s3server"
	"github.com/batleforc/batlehub-sandbox/runtime/storage"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/s3"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/storagetest"
)

// everyServer runs a test against each real server.
func everyServer(t *testing.T, test func(t *testing.T, s *s3server.Server)) {
	for _, kind := range s3server.Kinds {
		t.Run(string(kind), func(t *testing.T) { test(t, s3server.Start(t, kind, s3server.Options{})) })
	}
}

// empty removes everything from a bucket.
func emptyBucket(t *testing.T, b storage.Backend) {
	t.Helper()
	for o, err := range b.List(t.Context(), "") {
		if err == nil {
			err = b.Delete(t.Context(), o.Key)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestABucketIsABackend(t *testing.T) {
	everyServer(t, func(t *testing.T, s *s3server.Server) {
		storagetest.Backend(t, func(t *testing.T) storage.Backend {
			b := s.Backend(t)
			emptyBucket(t, b)
			return b
		}, storagetest.NoNesting)
	})
}

var _ = errors.Is
var _ = s3.Kind
