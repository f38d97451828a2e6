package crun

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// PinSuffix makes the name of a room's digest file, beside the room.
const PinSuffix = ".digest"

// WritePin writes the digest of the room at dir beside it, for a runtime that
// has none in its configuration, and returns it. It replaces an older one. A
// room that no run would take for who may change it is not pinned.
func WritePin(ctx context.Context, dir string) (string, error) {
	dir = filepath.Clean(dir)
	if err := checkTree(ctx, dir); err != nil {
		return "", fmt.Errorf("the room %s: %w", dir, err)
	}
	digest, err := Digest(ctx, dir)
	if err != nil {
		return "", fmt.Errorf("reading the room %s: %w", dir, err)
	}
	pin := dir + PinSuffix
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

// checkTree sees that no run would refuse the room for who may change it, or for
// an agent that it may not execute. What belongs into a room is package room's
// to say. The directory that it is in and what is above that are not looked at: a
// room may be built elsewhere than where it is used.
func checkTree(ctx context.Context, dir string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		return err
	}
	defer root.Close()
	if agent, err := root.Lstat(strings.TrimPrefix(AgentPath, "/")); err == nil {
		if fault := checkReach(root, agent); fault != "" {
			return errors.New(fault)
		}
	}
	s, err := surveyTree(ctx, root, DefaultUsernsBase)
	if err == nil {
		err = s.fault
	}
	return err
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
	real, fault := r.resolve(scanner, path)
	if fault != nil {
		return "", fault
	}
	root, err := os.OpenRoot(real)
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
	if err := passable(real); err != nil {
		return "", refusedConfig("the root of a sandbox is nobody on this host, and can't get to "+path, err)
	}
	return real, nil
}

// resolve finds where a room really is: a program takes no link for a root. No
// one else may change the way to it, or put anything beside it.
func (r *rooms) resolve(scanner, path string) (string, *sandbox.Error) {
	dir, err := follow(r.dir)
	if err == nil {
		err = onlyOurs(dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", refusedConfig(fmt.Sprintf("the directory of rooms, %s, is not safe from others", r.dir), err)
	}
	real, err := follow(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", roomMissing(scanner, path, "", err)
	case err != nil:
		return "", roomUnsafe(scanner, path, err)
	}
	return real, nil
}

func checkAgent(root *os.Root) string {
	info, err := root.Lstat(strings.TrimPrefix(AgentPath, "/"))
	switch {
	case err != nil:
		return "it has no agent at " + AgentPath
	case !info.Mode().IsRegular():
		return "its " + AgentPath + " is not a regular file"
	}
	return checkReach(root, info)
}

// checkReach sees that the agent can be executed by an id that owns nothing in
// the room.
func checkReach(root *os.Root, agent fs.FileInfo) string {
	if agent.Mode()&0o001 == 0 {
		return "its " + AgentPath + " is not executable for everybody (chmod a+rx)"
	}
	for dir := path.Dir(AgentPath); ; dir = path.Dir(dir) {
		if info, err := root.Stat("." + dir); err != nil || info.Mode()&0o001 == 0 {
			return "its " + dir + " is not searchable for everybody (chmod a+rx)"
		}
		if dir == "/" {
			return ""
		}
	}
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
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return roomMissing(scanner, path, "no digest is pinned for it", err)
	case err != nil:
		return roomMissing(scanner, path, "the digest that is pinned for it can't be used", err)
	}
	s, err := surveyTree(ctx, root, r.base)
	if err != nil {
		return looking(ctx, scanner, path, err)
	}
	if s.fault != nil {
		return roomUnsafe(scanner, path, s.fault)
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
	pin := path + PinSuffix
	if err := onlyOurs(pin); err != nil {
		return "", err
	}
	b, err := bundle.ReadFile(pin, 256)
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

// roomUnsafe is the refusal of a room that may be another than it is by now, or
// that would let in what is not of it.
func roomUnsafe(scanner, path string, err error) *sandbox.Error {
	e := roomMissing(scanner, path, "it is not safe to use", err)
	e.Hint = "put that right, and pin the room again after a look at what is in it"
	return e
}

func refusedConfig(detail string, err error) *sandbox.Error {
	return &sandbox.Error{Kind: sandbox.Refused, Code: sandbox.CodeConfig, Detail: detail, Err: err, Hint: docs}
}
