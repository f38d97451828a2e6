package oci

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/internal/fail"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/wire"
)

// parcel is a run's bundle on either way to its container.
type parcel interface {
	bundle.Carrier
	// mount is the directory to bind at /bundle, or empty.
	mount() string
	// beside is the run's directory on this host, which no sandbox is shown.
	beside() string
	// Result reads what the agent left, once its container is gone.
	Result(ctx context.Context) (*wire.Result, []byte, error)
	// full says whether there is no space for the result.
	full() bool
	// Close removes the bundle, under a context of its own.
	Close(ctx context.Context) error
}

// pack makes a run's bundle.
func (r *Runtime) pack(ctx context.Context, j *job) (parcel, *sandbox.Error) {
	request := bundle.Request{
		Manifest: bundle.Sparing(j.manifest, threads(j.spec.Limits)), Artifact: j.spec.Bundle.Artifact, Inside: bundleDir,
		Deadline: j.clock.Deadline(), Start: j.spec.StartTimeout,
	}
	if r.config.Engine == Docker {
		// The sandboxes' uid is one for all of docker's containers, so that the
		// bound would count the processes of all.
		limited := *j.manifest
		limited.Limits.Processes = 0
		request.Manifest = &limited
	}
	if r.config.Transport == Storage {
		return r.send(ctx, request)
	}
	dir, err := r.store.Create(ctx, request)
	if err != nil {
		return nil, fail.Of(err)
	}
	p := &dirParcel{Dir: dir, runtime: r, job: j}
	if err := p.handOver(); err != nil {
		return nil, fail.Left(&sandbox.Error{
			Kind: sandbox.Crashed, Code: sandbox.CodeInternal, Detail: "handing the run directory over", Err: err,
		}, dir.Close())
	}
	return p, nil
}

// send makes a bundle on the storage, and a directory for podman, which is given
// a file all the same (see writeHosts).
func (r *Runtime) send(ctx context.Context, request bundle.Request) (parcel, *sandbox.Error) {
	var p remoteParcel
	var err error
	if r.config.Engine == Podman {
		if p.dir, err = r.store.Bare(request.Manifest.Label, request.Deadline); err != nil {
			return nil, fail.Of(err)
		}
	}
	if p.Remote, err = r.config.Hop.Create(ctx, request); err != nil {
		return nil, fail.Left(fail.Of(err), p.closeDir())
	}
	return p, nil
}

type remoteParcel struct {
	*bundle.Remote
	dir *bundle.Dir
}

func (remoteParcel) mount() string { return "" }
func (remoteParcel) full() bool    { return false }

func (p remoteParcel) beside() string {
	if p.dir == nil {
		return ""
	}
	return p.dir.Path()
}

// Close removes the bundle and the directory.
func (p remoteParcel) Close(ctx context.Context) error {
	err := p.Remote.Close(ctx)
	if left := p.closeDir(); left != nil {
		return errors.Join(err, left)
	}
	return err
}

func (p remoteParcel) closeDir() error {
	if p.dir == nil {
		return nil
	}
	return p.dir.Close()
}

// dirParcel is a run directory, which belongs to the sandbox's uid while the
// run lasts.
type dirParcel struct {
	*bundle.Dir
	runtime   *Runtime
	job       *job
	reclaimed bool
}

func (p *dirParcel) mount() string  { return p.Work() }
func (p *dirParcel) beside() string { return p.Path() }
func (p *dirParcel) full() bool     { return p.Full() }

// handOver lets the sandbox's uid have the work directory. Podman does that
// itself, with the uid that it picks; it has to be seen from here all the
// same whether the manifest is still there.
func (p *dirParcel) handOver() error {
	if p.job.host.rootless {
		return os.Chmod(p.Work(), 0o711)
	}
	if p.runtime.config.Engine == Podman {
		return nil
	}
	uid := UID + p.job.host.remap
	root, err := os.OpenRoot(p.Work())
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return root.Lchown(name, uid, uid)
	})
}

// Result reads the result once what is in the directory is this user's again.
func (p *dirParcel) Result(ctx context.Context) (*wire.Result, []byte, error) {
	if err := p.reclaim(ctx); err != nil {
		return nil, nil, err
	}
	return p.Dir.Result()
}

// Close removes the directory.
func (p *dirParcel) Close(ctx context.Context) error {
	if err := p.reclaim(ctx); err != nil {
		return fmt.Errorf("%w (and %w)", err, p.Dir.Close())
	}
	return p.Dir.Close()
}

// reclaim gives back what a rootless engine gave to a uid of its range, whose
// files this process can't read or remove.
func (p *dirParcel) reclaim(ctx context.Context) error {
	if !p.job.host.rootless || p.reclaimed {
		return nil
	}
	p.reclaimed = true
	return p.runtime.reclaim(ctx, p.job.host, p.Work())
}

// reclaim makes this user the owner of a tree again. In podman's own user
// namespace this user is root.
func (r *Runtime) reclaim(ctx context.Context, h *host, dir string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
	defer cancel()
	exit, err := r.engine.call(ctx, h.path, "unshare", "chown", "-hR", "0:0", dir)
	switch {
	case err != nil:
		return fmt.Errorf("taking %s back: %w", dir, err)
	case exit.Status != 0:
		return fmt.Errorf("taking %s back: %s exited %d: %s", dir, r.config.Engine, exit.Status, tidy(exit.Stderr))
	}
	return nil
}
