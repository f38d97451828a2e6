// Package listing writes a directory tree as text, so that two trees can be
// compared wherever they stand.
package listing

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Write lists the tree below root, one line per path in lexical order: kind,
// quoted path, and a file's digest or a link's target. Modes and times are left
// out: dropping them is what the agent is for.
func Write(w io.Writer, root string) error {
	b := bufio.NewWriter(w)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return writeOne(b, path, rel, d.Type())
	})
	if err != nil {
		return fmt.Errorf("listing %s: %w", root, err)
	}
	return b.Flush()
}

func writeOne(w io.Writer, path, rel string, kind fs.FileMode) error {
	switch {
	case kind.IsDir():
		_, err := fmt.Fprintf(w, "dir %q\n", rel)
		return err
	case kind.IsRegular():
		digest, err := Digest(path)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "file %q %s\n", rel, digest)
		return err
	case kind&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(w, "link %q %q\n", rel, target)
		return err
	}
	_, err := fmt.Fprintf(w, "other %q %v\n", rel, kind)
	return err
}

// Digest is the SHA-256 of a file's content, in hexadecimal.
func Digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
