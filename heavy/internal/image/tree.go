package image

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/listing"
)

// Tree lists a directory as Open lists an image, in the order of paths.
func Tree(dir string) ([]File, error) {
	var files []File
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		f, err := stat(p, "/"+rel)
		files = append(files, f)
		return err
	})
	return files, err
}

func stat(p, name string) (File, error) {
	info, err := os.Lstat(p)
	if err != nil {
		return File{}, err
	}
	f := File{Path: name, Mode: fmt.Sprintf("%04o", info.Mode().Perm())}
	if s, is := info.Sys().(*syscall.Stat_t); is {
		f.Mode = fmt.Sprintf("%04o", s.Mode&0o7777)
		f.UID, f.GID = int(s.Uid), int(s.Gid)
	}
	switch {
	case info.IsDir():
		f.Type = "dir"
	case info.Mode()&fs.ModeSymlink != 0:
		f.Type = "link"
		f.Target, err = os.Readlink(p)
	case info.Mode().IsRegular():
		f.Type, f.Size = "file", info.Size()
		var digest string
		digest, err = listing.Digest(p)
		f.Digest = "sha256:" + digest
	default:
		f.Type = "other"
	}
	return f, err
}
