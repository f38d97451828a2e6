package image

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

// Image is one image: its configuration and the files that a container of it
// begins with.
type Image struct {
	// ID is the digest of the configuration, which names the image in docker.
	ID     string
	Config Config
	// Layers are the digests of the uncompressed layers, lowest first.
	Layers []string
	// Files are all entries but the root, in the order of their paths.
	Files []File
}

// Config is the part of an image's configuration that a run sees.
type Config struct {
	User       string
	WorkingDir string
	Env        []string
	Entrypoint []string
	Cmd        []string
}

// File is one entry of an image or a tree.
type File struct {
	// Path is absolute.
	Path string `json:"path"`
	// Type is "file", "dir", "link", or "other" for what no room may have.
	Type string `json:"type"`
	// Mode is the permission bits in octal, set-id and sticky bits included.
	Mode string `json:"mode"`
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
	Size int64  `json:"size,omitempty"`
	// Digest is a file's sha256, Target a link's.
	Digest string `json:"digest,omitempty"`
	Target string `json:"target,omitempty"`
}

// Open reads the image in the archive that "save" wrote.
func Open(name string) (*Image, error) {
	a, err := openArchive(name)
	if err != nil {
		return nil, err
	}
	defer a.file.Close()
	var manifest []struct {
		Config string
		Layers []string
	}
	if err := a.json("manifest.json", &manifest); err != nil {
		return nil, err
	}
	if len(manifest) != 1 {
		return nil, fmt.Errorf("%s holds %d images, want one", name, len(manifest))
	}
	raw, err := a.bytes(manifest[0].Config)
	if err != nil {
		return nil, err
	}
	var config struct {
		Config Config
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	if err := a.json(manifest[0].Config, &config); err != nil {
		return nil, err
	}
	files := map[string]File{}
	for _, layer := range manifest[0].Layers {
		if err := apply(a, layer, files); err != nil {
			return nil, fmt.Errorf("layer %s: %w", layer, err)
		}
	}
	sum := sha256.Sum256(raw)
	i := &Image{ID: "sha256:" + hex.EncodeToString(sum[:]), Config: config.Config, Layers: config.RootFS.DiffIDs}
	for _, f := range files {
		i.Files = append(i.Files, f)
	}
	slices.SortFunc(i.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return i, nil
}

// Find returns the entry at a path.
func (i *Image) Find(name string) (File, bool) {
	n, found := slices.BinarySearchFunc(i.Files, name, func(f File, p string) int { return strings.Compare(f.Path, p) })
	if !found {
		return File{}, false
	}
	return i.Files[n], true
}

// apply lays one layer over what the layers below left.
func apply(a *archive, layer string, files map[string]File) error {
	content, err := a.open(layer)
	if err != nil {
		return err
	}
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Clean("/" + h.Name)
		if name == "/" {
			continue
		}
		if base := path.Base(name); strings.HasPrefix(base, ".wh.") {
			whiteout(files, path.Dir(name), base)
			continue
		}
		f, err := entry(r, h, name, files)
		if err != nil {
			return err
		}
		if f.Type != "dir" {
			remove(files, name)
		}
		files[name] = f
	}
}

func whiteout(files map[string]File, dir, base string) {
	if base == ".wh..wh..opq" {
		own, there := files[dir]
		remove(files, dir)
		if there {
			files[dir] = own
		}
		return
	}
	remove(files, path.Join(dir, strings.TrimPrefix(base, ".wh.")))
}

func remove(files map[string]File, name string) {
	for p := range files {
		if p == name || strings.HasPrefix(p, strings.TrimSuffix(name, "/")+"/") {
			delete(files, p)
		}
	}
}

func entry(r io.Reader, h *tar.Header, name string, files map[string]File) (File, error) {
	f := File{Path: name, Mode: fmt.Sprintf("%04o", h.Mode&0o7777), UID: h.Uid, GID: h.Gid}
	switch h.Typeflag {
	case tar.TypeDir:
		f.Type = "dir"
	case tar.TypeSymlink:
		f.Type, f.Target = "link", h.Linkname
	case tar.TypeReg:
		hash := sha256.New()
		n, err := io.Copy(hash, r)
		if err != nil {
			return f, err
		}
		f.Type, f.Size, f.Digest = "file", n, "sha256:"+hex.EncodeToString(hash.Sum(nil))
	case tar.TypeLink:
		same, there := files[path.Clean("/"+h.Linkname)]
		if !there {
			return f, fmt.Errorf("%s is a link to %s, which is not there", name, h.Linkname)
		}
		same.Path = name
		return same, nil
	default:
		f.Type = "other"
	}
	return f, nil
}
