package oci

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/runtime/storage/memory"
)

// bucket is a memory backend that pretends to presign.
type bucket struct{ *memory.Backend }

func (bucket) PresignGet(_ context.Context, key string, _ time.Duration) (string, error) {
	return "https://s3.test/" + key + "?X-Amz-Signature=get", nil
}

func (bucket) PresignPut(_ context.Context, key string, _ time.Duration, _ int64) (string, error) {
	return "https://s3.test/" + key + "?X-Amz-Signature=put", nil
}

// overBucket has a runtime's bundles travel through a bucket in which nothing
// may be left.
func overBucket(t *testing.T) func(*Config) {
	t.Helper()
	b := bucket{memory.New()}
	hop := bundle.NewHop(bundle.HopConfig{Runtime: Name, Leaf: b})
	t.Cleanup(func() {
		if err := hop.Close(); err != nil {
			t.Error(err)
		}
		for o, err := range b.List(context.Background(), "") {
			t.Errorf("a key is left: %s, %v", o.Key, err)
		}
	})
	return func(c *Config) { c.Transport, c.Hop = Storage, hop }
}

// What the agent says of the storage is the storage's fault, as on a cluster,
// and what it says of itself is not.
func TestAnAgentThatTheStorageFailsIsAFaultOfTheStorage(t *testing.T) {
	if !root() {
		t.Skip("not run: the storage transport needs root")
	}
	for _, c := range []struct {
		status int
		code   sandbox.Code
		words  string
	}{
		{bundle.ExitManifest, sandbox.CodeFetch, "exited 65 (agent: no usable manifest) and no result came back; the sandbox has to reach the storage"},
		{bundle.ExitStore, sandbox.CodeStorage, "exited 66 (agent: the result could not be stored) and no result came back; look at the storage"},
		{67, sandbox.CodeNoResult, "exited 67 (agent: internal failure) and no result came back"},
	} {
		for _, engine := range []string{Podman, Docker} {
			r := stubbed(t, engine, fmt.Sprintf("exit %d", c.status), overBucket(t))
			spec := stubSpec()
			spec.Network = true
			_, err := r.Run(t.Context(), spec)
			e, ok := errors.AsType[*sandbox.Error](err)
			if !ok || e.Kind != sandbox.Crashed || e.Code != c.code || !strings.Contains(err.Error(), c.words) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: got %v, want %s", engine, err, c.words)
			}
		}
	}
}

// By a mount the same statuses say nothing of a storage.
func TestAnAgentThatAMountFailsIsNoFaultOfTheStorage(t *testing.T) {
	for status, words := range map[int]string{bundle.ExitManifest: "the engine has to see", bundle.ExitStore: docs} {
		r := stubbed(t, Podman, fmt.Sprintf("exit %d", status))
		_, err := r.Run(t.Context(), stubSpec())
		if sandbox.CodeOf(err) != sandbox.CodeNoResult || !strings.Contains(err.Error(), words) {
			t.Errorf("%d: got %v, want %q", status, err, words)
		}
	}
}
