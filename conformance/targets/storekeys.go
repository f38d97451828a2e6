package targets

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/batleforc/batlehub-sandbox/conformance"
)

// keysOf lists a session's bundles.
func keysOf(ctx context.Context, store *conformance.Store, setup conformance.Setup) ([]string, error) {
	var list []string
	for o, err := range store.List(ctx, store.Prefix) {
		if err != nil {
			return nil, err
		}
		if strings.Contains(o.Key, setup.Token) {
			list = append(list, "key "+o.Key)
		}
	}
	return list, nil
}

// plantKeysBeside puts objects there that are no bundle's.
func plantKeysBeside(ctx context.Context, store *conformance.Store, s conformance.Setup) ([]string, error) {
	keys := []string{"blob/" + s.Token, "sandbox-" + s.Token + "/" + s.Worker + "/o07/s/1/out.tar", "artifact:npm/left-" + s.Token + "/1.0.0"}
	for _, key := range keys {
		if err := store.Backend.Put(ctx, key, bytes.NewReader([]byte("{}")), 2); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

func removeKeys(ctx context.Context, store *conformance.Store, keys []string) error {
	var errs []error
	for _, key := range keys {
		errs = append(errs, store.Backend.Delete(ctx, key))
	}
	return errors.Join(errs...)
}

func missingKeys(ctx context.Context, store *conformance.Store, keys []string) []string {
	var missing []string
	for _, key := range keys {
		if _, err := store.Backend.Head(ctx, key); err != nil {
			missing = append(missing, "key "+key)
		}
	}
	return missing
}
