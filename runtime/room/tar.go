package room

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteTar writes the tree at dir as one archive, the layer of an image that
// holds the room. Everything in it belongs to root and has no times, so that
// the same tree makes the same bytes.
func WriteTar(w io.Writer, dir string) error {
	archive := tar.NewWriter(w)
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		return writeTarEntry(archive, dir, name, d)
	})
	if err := errors.Join(err, archive.Close()); err != nil {
		return fmt.Errorf("archiving %s: %w", dir, err)
	}
	return nil
}

func writeTarEntry(archive *tar.Writer, dir, name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	link := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if link, err = os.Readlink(name); err != nil {
			return err
		}
	}
	of, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	path, err := filepath.Rel(dir, name)
	if err != nil {
		return err
	}
	header := &tar.Header{Typeflag: of.Typeflag, Name: path, Linkname: link, Size: of.Size, Mode: of.Mode}
	if err := archive.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(archive, f)
	return errors.Join(err, f.Close())
}
