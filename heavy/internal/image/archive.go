package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
)

// archive is the members of an uncompressed tar, by name and in any order.
type archive struct {
	file    *os.File
	members map[string]*io.SectionReader
	// links are members that stand for another one: docker writes a layer that
	// two images share once.
	links map[string]string
}

func openArchive(name string) (*archive, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	a := &archive{file: f, members: map[string]*io.SectionReader{}, links: map[string]string{}}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return a, nil
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("the image archive %s: %w", name, err), f.Close())
		}
		switch h.Typeflag {
		case tar.TypeReg:
			// The reader takes whole blocks, so the content begins here.
			offset, err := f.Seek(0, io.SeekCurrent)
			if err != nil {
				return nil, errors.Join(err, f.Close())
			}
			a.members[path.Clean(h.Name)] = io.NewSectionReader(f, offset, h.Size)
		case tar.TypeSymlink:
			a.links[path.Clean(h.Name)] = path.Join(path.Dir(h.Name), h.Linkname)
		}
	}
}

// open returns a member, undoing its compression.
func (a *archive) open(name string) (io.Reader, error) {
	name = path.Clean(name)
	if to, is := a.links[name]; is {
		name = to
	}
	m, there := a.members[name]
	if !there {
		return nil, fmt.Errorf("the archive has no %s", name)
	}
	r := bufio.NewReader(io.NewSectionReader(m, 0, m.Size()))
	if magic, err := r.Peek(2); err == nil && bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return gzip.NewReader(r)
	}
	return r, nil
}

func (a *archive) bytes(name string) ([]byte, error) {
	r, err := a.open(name)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, 8<<20))
}

func (a *archive) json(name string, v any) error {
	b, err := a.bytes(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
