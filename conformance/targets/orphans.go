package targets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// directories is what group O gets at where run directories are all that a
// killed worker can leave.
func directories(name string) conformance.Orphans {
	return conformance.Orphans{
		Plant: func(_ context.Context, s conformance.Setup, l wire.Label, deadline time.Time) error {
			return plantDirectory(filepath.Join(s.Dir, name), l, deadline)
		},
		Bystanders: func(_ context.Context, s conformance.Setup) (conformance.Bystanders, error) {
			return directoriesBeside(filepath.Join(s.Dir, name), s)
		},
	}
}

// plantDirectory makes a run directory as a worker makes it, and leaves it.
func plantDirectory(parent string, l wire.Label, deadline time.Time) error {
	dir := filepath.Join(parent, strings.Join([]string{"batlehub-sbx", l.Worker, l.Job, l.Scanner, fmt.Sprint(l.Attempt), "planted"}, "~"))
	if err := os.MkdirAll(filepath.Join(dir, "work", "in"), 0o700); err != nil {
		return err
	}
	owner, err := json.Marshal(map[string]any{"worker": l.Worker, "created": deadline.Add(-time.Minute), "deadline": deadline})
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "owner.json"), owner, 0o600),
		os.WriteFile(filepath.Join(dir, "work", "manifest.json"), []byte("{}"), 0o600),
		os.WriteFile(filepath.Join(dir, "work", "in", "artifact"), []byte("left behind"), 0o600),
	)
}

// directoriesBeside puts things beside run directories that no runtime made,
// each of them old.
func directoriesBeside(parent string, s conformance.Setup) (conformance.Bystanders, error) {
	names := []string{"batlehub-sbx-" + s.Worker, "batlehub-sbx", "sbx~" + s.Worker + "~job~scanner~1~x", "my-batlehub-sbx~" + s.Worker}
	var b conformance.Bystanders
	for _, name := range names {
		dir := filepath.Join(parent, name)
		if err := os.MkdirAll(filepath.Join(dir, "work"), 0o755); err != nil {
			return b, err
		}
		if err := os.WriteFile(filepath.Join(dir, "work", "manifest.json"), []byte("{}"), 0o644); err != nil {
			return b, err
		}
		long := time.Now().Add(-1000 * time.Hour)
		if err := errors.Join(os.Chtimes(filepath.Join(dir, "work"), long, long), os.Chtimes(dir, long, long)); err != nil {
			return b, err
		}
		b.Names = append(b.Names, "directory "+name)
	}
	// A file of a run directory's name is none.
	file := "batlehub-sbx~" + s.Worker + "~job~scanner~1~file"
	if err := os.WriteFile(filepath.Join(parent, file), nil, 0o600); err != nil {
		return b, err
	}
	b.Names = append(b.Names, "file "+file)
	names = append(names, file)
	b.Missing = func() ([]string, error) {
		var missing []string
		for _, name := range names {
			if _, err := os.Lstat(filepath.Join(parent, name)); errors.Is(err, fs.ErrNotExist) {
				missing = append(missing, name)
			}
		}
		return missing, nil
	}
	b.Remove = func() error {
		var errs []error
		for _, name := range names {
			errs = append(errs, os.RemoveAll(filepath.Join(parent, name)))
		}
		return errors.Join(errs...)
	}
	return b, nil
}
