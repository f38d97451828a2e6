package room

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Digest is the SHA-256 of the tree at dir: names, types, whether a file is
// executable, link targets and contents, and neither times nor owners.
func Digest(ctx context.Context, dir string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	s, err := measure(ctx, root)
	return s.digest, err
}

type sum struct {
	digest       string
	files, bytes int64
}

// measure walks the tree in the order of names, one record per entry. A name
// is quoted, so that no name can look like two records.
func measure(ctx context.Context, root *os.Root) (sum, error) {
	var s sum
	hash := sha256.New()
	err := fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch d.Type() {
		case fs.ModeDir:
			fmt.Fprintf(hash, "dir %q\n", name)
		case fs.ModeSymlink:
			target, err := root.Readlink(name)
			if err != nil {
				return err
			}
			fmt.Fprintf(hash, "link %q %q\n", name, target)
		case 0:
			content, size, executable, err := hashFile(ctx, root, name)
			if err != nil {
				return err
			}
			s.files++
			s.bytes += size
			fmt.Fprintf(hash, "file %q %t %s\n", name, executable, content)
		default:
			fmt.Fprintf(hash, "other %q %s\n", name, d.Type())
		}
		return nil
	})
	s.digest = "sha256:" + hex.EncodeToString(hash.Sum(nil))
	return s, err
}

func hashFile(ctx context.Context, root *os.Root, name string) (digest string, size int64, executable bool, err error) {
	f, err := root.Open(name)
	if err != nil {
		return "", 0, false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", 0, false, err
	}
	hash := sha256.New()
	size, err = io.Copy(hash, contextReader{ctx, f})
	return hex.EncodeToString(hash.Sum(nil)), size, info.Mode()&0o111 != 0, err
}
