package room

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
)

// documentCap bounds a JSON document of an image, in bytes.
const documentCap = 8 << 20

// archive is the files of an image: a directory, or a tar.
type archive interface {
	// open returns a file by its name in the archive.
	open(name string) (io.ReadCloser, error)
	io.Closer
}

// openArchive opens an image archive of any of the known forms.
func openArchive(name string) (archive, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		root, err := os.OpenRoot(name)
		return dirArchive{root}, err
	}
	f, err := bundle.OpenRegular(name)
	if err != nil {
		return nil, err
	}
	a, err := indexTar(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return a, nil
}

type dirArchive struct{ root *os.Root }

func (a dirArchive) open(name string) (io.ReadCloser, error) {
	f, err := a.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, errors.Join(err, fmt.Errorf("%s is not a regular file", name))
	}
	return f, nil
}

func (a dirArchive) Close() error { return a.root.Close() }

// tarArchive reads the members of an uncompressed tar by name, in any order.
type tarArchive struct {
	file    *os.File
	members map[string]member
}

// member is a part of the tar's file, or a link to another member, as docker
// save writes for a layer that two images share.
type member struct {
	offset, size int64
	link         string
}

func indexTar(f *os.File) (*tarArchive, error) {
	a := &tarArchive{file: f, members: make(map[string]member)}
	r := tar.NewReader(f)
	for {
		h, err := r.Next()
		if err == io.EOF {
			return a, nil
		}
		if err != nil {
			return nil, fmt.Errorf("it is not an uncompressed tar: %w", err)
		}
		name := path.Clean(h.Name)
		switch h.Typeflag {
		case tar.TypeReg:
			// The reader takes whole blocks and no more, so this is where the
			// member's content begins.
			offset, err := f.Seek(0, io.SeekCurrent)
			if err != nil {
				return nil, err
			}
			a.members[name] = member{offset: offset, size: h.Size}
		case tar.TypeSymlink:
			a.members[name] = member{link: path.Join(path.Dir(name), h.Linkname)}
		case tar.TypeLink:
			a.members[name] = member{link: path.Clean(h.Linkname)}
		}
	}
}

func (a *tarArchive) open(name string) (io.ReadCloser, error) {
	for range 8 {
		m, ok := a.members[path.Clean(name)]
		switch {
		case !ok:
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		case m.link == "":
			return io.NopCloser(io.NewSectionReader(a.file, m.offset, m.size)), nil
		}
		name = m.link
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: errLinks}
}

func (a *tarArchive) Close() error { return a.file.Close() }

// document reads a small file of an archive.
func document(a archive, name string) ([]byte, error) {
	f, err := a.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, documentCap+1))
	if len(b) > documentCap {
		return nil, fmt.Errorf("%s has more than %d bytes", name, documentCap)
	}
	return b, err
}

// inflate undoes a layer's compression, which is told by its first bytes.
func inflate(r io.Reader) (io.ReadCloser, error) {
	b := bufio.NewReaderSize(r, 64<<10)
	magic, err := b.Peek(4)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(b)
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		d, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return io.NopCloser(b), nil
}
