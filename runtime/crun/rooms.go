package crun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// PinSuffix makes the name of a room's digest file, beside the room.
const PinSuffix = ".digest"

// WritePin writes the digest of the room at dir beside it, for a runtime that
// has none in its configuration, and returns it. It replaces an older one.
func WritePin(ctx context.Context, dir string) (string, error) {
	digest, err := Digest(ctx, dir)
	if err != nil {
		return "", fmt.Errorf("reading the room %s: %w", dir, err)
	}
	pin := filepath.Clean(dir) + PinSuffix
	if err := os.Remove(pin); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	f, err := os.OpenFile(pin, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(digest + "\n")
	return digest, errors.Join(err, f.Close())
}

// rooms are the trees of a runtime.
type rooms struct {
	dir     string
	digests map[string]string
	base    uint32

	mu sync.Mutex
	// verified has the state of each room's tree when its digest was found to
	// be the pinned one.
	verified map[string]verified
}

type verified struct{ digest, state string }

// find returns the verified tree of a scanner. thorough reads it whatever was
// seen before.
func (r *rooms) find(ctx context.Context, scanner string, thorough bool) (string, *sandbox.Error) {
	switch {
	case r.dir == "":
		return "", refusedConfig("no rooms are configured: the crun runtime needs a directory with one tree per scanner", nil)
	case !filepath.IsAbs(r.dir):
		return "", refusedConfig(fmt.Sprintf("the directory of rooms, %s, is not an absolute path", r.dir), nil)
	}
	path := filepath.Join(r.dir, scanner)
	root, err := os.OpenRoot(path)
	if err != nil {
		return "", roomMissing(scanner, path, "", err)
	}
	defer root.Close()
	if host, err := os.Stat("/"); err == nil {
		if info, err := root.Stat("."); err == nil && os.SameFile(host, info) {
			return "", refusedConfig(fmt.Sprintf("the room %s of scanner %q is this host's own root", path, scanner), nil)
		}
	}
	if fault := checkAgent(root); fault != "" {
		return "", roomMissing(scanner, path, fault, nil)
	}
	if fault := r.verify(ctx, root, scanner, path, thorough); fault != nil {
		return "", fault
	}
	if fault := checkMountPoints(root); fault != "" {
		return "", roomMissing(scanner, path, fault, nil)
	}
	return path, nil
}

func checkAgent(root *os.Root) string {
	info, err := root.Lstat(strings.TrimPrefix(AgentPath, "/"))
	switch {
	case err != nil:
		return "it has no agent at " + AgentPath
	case !info.Mode().IsRegular():
		return "its " + AgentPath + " is not a regular file"
	case info.Mode()&0o111 == 0:
		return "its " + AgentPath + " is not executable"
	}
	return ""
}

// checkMountPoints: what is mounted needs a place, which nobody can make in a
// read-only tree that no id of the sandbox owns.
func checkMountPoints(root *os.Root) string {
	for _, name := range []string{"proc", "dev", "work", "bundle", "out"} {
		if info, err := root.Lstat(name); err != nil || !info.IsDir() {
			return "it has no directory /" + name + " to mount on"
		}
	}
	if info, err := root.Lstat("tmp"); err != nil || !info.IsDir() && info.Mode().Type() != fs.ModeSymlink {
		return "it has no /tmp"
	}
	// runc gives a tmpfs the mode of what it is mounted on.
	if info, err := root.Lstat("work"); err != nil || info.Mode().Perm() != 0o777 || info.Mode()&fs.ModeSticky == 0 {
		return "its /work is not of mode 1777"
	}
	return ""
}

// verify compares the tree with its pinned digest. A tree that has not changed
// since it was found to be the pinned one is not read again.
func (r *rooms) verify(ctx context.Context, root *os.Root, scanner, path string, thorough bool) *sandbox.Error {
	pin, err := r.pin(scanner, path)
	if err != nil {
		return roomMissing(scanner, path, "no digest is pinned for it", err)
	}
	s, err := surveyTree(ctx, root, r.base)
	if err != nil {
		return looking(ctx, scanner, path, err)
	}
	if s.fault != "" {
		return roomMissing(scanner, path, "a sandbox could change it: "+s.fault, nil)
	}
	now := verified{digest: pin, state: s.state}
	r.mu.Lock()
	before := r.verified[scanner]
	r.mu.Unlock()
	if before == now && !thorough {
		return nil
	}
	got, err := Digest(ctx, path)
	if err != nil {
		return looking(ctx, scanner, path, err)
	}
	if got != pin {
		return roomMissing(scanner, path, fmt.Sprintf("its digest is %s, and %s is pinned", got, pin), nil)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.verified == nil {
		r.verified = make(map[string]verified)
	}
	r.verified[scanner] = now
	return nil
}

// pin is the room's digest as configured, or as written beside it.
func (r *rooms) pin(scanner, path string) (string, error) {
	if pin, ok := r.digests[scanner]; ok {
		return pin, nil
	}
	b, err := bundle.ReadFile(path+PinSuffix, 256)
	return strings.TrimSpace(string(b)), err
}

func looking(ctx context.Context, scanner, path string, err error) *sandbox.Error {
	if ctx.Err() != nil {
		return &sandbox.Error{Kind: sandbox.Cancelled, Err: context.Cause(ctx)}
	}
	return roomMissing(scanner, path, "it can't be read", err)
}

func roomMissing(scanner, path, detail string, err error) *sandbox.Error {
	if detail == "" {
		detail = "it is not there"
	}
	return &sandbox.Error{
		Kind: sandbox.Refused, Code: sandbox.CodeImageMissing,
		Detail: fmt.Sprintf("the room %s of scanner %q can't be used: %s", path, scanner, detail), Err: err,
		Hint: "build it with sandboxctl tree, and pin its digest",
	}
}

func refusedConfig(detail string, err error) *sandbox.Error {
	return &sandbox.Error{Kind: sandbox.Refused, Code: sandbox.CodeConfig, Detail: detail, Err: err, Hint: docs}
}
