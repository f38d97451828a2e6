package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/batleforc/batlehub-sandbox/runtime/room"
	"github.com/batleforc/batlehub-sandbox/wire"
	"github.com/batleforc/batlehub-sandbox/worker/build"
	"github.com/batleforc/batlehub-sandbox/worker/internal/ui"
)

type treeFlags struct {
	output                         string
	files, dirs, images, commands  []string
	agent                          string
	libraries, allowShell, replace bool
	pin                            bool
}

func (a *app) treeCommand() *cobra.Command {
	var f treeFlags
	c := &cobra.Command{
		Use: "tree [SCANNER]", Short: "Build a scanner's room, from files or an image archive",
		Long: `Builds the tree that a scanner runs in under runtimes "bwrap" and "crun": the
scanner, what it needs, the agent, the mount points, and nothing else. It goes to the rooms'
directory under the scanner's name, or to --output. It is put together beside
its place and checked, and appears at once or not at all.

Runtime "crun" starts nothing in a room whose digest is not pinned: --pin, which
is the default under that runtime, writes the digest to a file beside the room.
Alone, --pin pins the room that stands there.

Copying follows no link. A program that is linked with libraries needs
--libraries, or an image that has them.`,
		Example: `  sandboxctl tree gitleaks --file ./gitleaks --command gitleaks
  sandboxctl tree gitleaks --file ./gitleaks --command gitleaks --pin
  sandboxctl tree --output /opt/sandbox/gitleaks --file /usr/local/bin/gitleaks=./gitleaks
  sandboxctl tree guarddog --image guarddog.tar --command guarddog`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 && f.output != "" {
				return nil
			}
			return exactly(1, "the scanner's name (or --output)")(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error { return a.tree(c, args, f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.output, "output", "", "`directory` to build, instead of the scanner's own below the rooms")
	flags.StringArrayVar(&f.files, "file", nil, "`[PLACE=]FILE`: copy FILE to PLACE in the room (default: /usr/local/bin/<name>); may be given more than once")
	flags.StringArrayVar(&f.dirs, "dir", nil, "`[PLACE=]DIR`: copy the content of DIR to PLACE in the room (default: /); may be given more than once")
	flags.StringArrayVar(&f.images, "image", nil, "`archive` of an image: an OCI layout, or what docker save wrote; may be given more than once")
	flags.StringArrayVar(&f.commands, "command", nil, "`program` that the finished room must hold; may be given more than once")
	flags.StringVar(&f.agent, "agent", "", "the agent's binary `file` (default: batlehub-sandbox beside this program)")
	flags.BoolVar(&f.libraries, "libraries", false, "copy the shared libraries that the room's programs are linked with from this host")
	flags.BoolVar(&f.allowShell, "allow-shell", false, "let the room have a shell; its probe will fail all the same")
	flags.BoolVar(&f.replace, "force", false, "replace the room if it exists; nothing but a room, or an empty directory, ever is replaced")
	flags.BoolVar(&f.pin, "pin", false, "write the room's digest beside it, for runtime crun; without anything to build from, that of the room that is there")
	return c
}

func (a *app) tree(c *cobra.Command, args []string, f treeFlags) error {
	alone := f.pin && len(f.files)+len(f.dirs)+len(f.images) == 0
	dir, err := a.treePlace(args, &f)
	if err != nil {
		return err
	}
	if alone {
		return a.pinRoom(c.Context(), dir, f)
	}
	o, err := f.options()
	if err != nil {
		return err
	}
	progress := ui.NewProgress(a.stderr)
	progress.Start("building the room")
	a.busy.Add(1)
	report, err := room.Build(c.Context(), dir, o)
	a.busy.Add(-1)
	progress.Stop()
	if errors.Is(err, room.ErrExists) {
		return fmt.Errorf("%w; give --force to replace it", err)
	}
	if err != nil {
		return err
	}
	for _, w := range report.Warnings {
		a.say("sandboxctl: warning: %s", w)
	}
	for _, s := range report.Skipped {
		a.say("sandboxctl: warning: left out %s: a room has no devices, FIFOs or sockets, and nothing in /tmp and below what is mounted", s)
	}
	p := &printer{w: a.stdout}
	p.line("%s: %s, %s, %s", report.Dir, plural(int(report.Files), "file"), ui.Bytes(report.Bytes), report.Digest)
	if p.err != nil || !f.pin {
		return p.err
	}
	return a.pin(c.Context(), dir)
}

// pinRoom pins a room that is there, once it is seen to be one.
func (a *app) pinRoom(ctx context.Context, dir string, f treeFlags) error {
	problems, err := room.Check(dir, f.commands...)
	if err != nil {
		return plainPathError(err)
	}
	if len(problems) > 0 {
		return &room.ProblemsError{Problems: problems}
	}
	return a.pin(ctx, dir)
}

// pin writes the digest of a room beside it.
func (a *app) pin(ctx context.Context, dir string) error {
	digest, file, err := build.WritePin(ctx, dir)
	if err != nil {
		return plainPathError(err)
	}
	_, err = fmt.Fprintf(a.stdout, "%s: pinned %s\n", ui.Clean(file), digest)
	return err
}

// treePlace is the directory to build. Under runtime crun a room is pinned.
func (a *app) treePlace(args []string, f *treeFlags) (string, error) {
	if f.output != "" {
		if len(args) > 0 {
			return "", usagef("both a scanner and --output are given; give one")
		}
		return f.output, nil
	}
	if err := (wire.Label{Worker: "x", Job: "x", Scanner: args[0], Attempt: 1}).Validate(); err != nil {
		return "", usagef("the scanner's name: %s", err)
	}
	conf, err := a.load()
	if err != nil {
		return "", err
	}
	rooms := conf.Worker.Sandbox.Bwrap.Rooms
	if conf.Worker.Sandbox.Runtime == "crun" {
		rooms, f.pin = conf.Worker.Sandbox.Crun.Rooms, true
	}
	return filepath.Join(rooms, args[0]), nil
}

// options are what goes into the room: images first, so that files lie over
// them.
func (f treeFlags) options() (room.Options, error) {
	o := room.Options{Commands: f.commands, Libraries: f.libraries, AllowShell: f.allowShell, Replace: f.replace}
	if len(f.files)+len(f.dirs)+len(f.images) == 0 {
		return o, usagef("nothing to build the room from; give --file, --dir or --image")
	}
	for _, image := range f.images {
		o.From = append(o.From, room.Source{Image: image})
	}
	for _, value := range append(append([]string{}, f.dirs...), f.files...) {
		place, path, placed := strings.Cut(value, "=")
		if !placed {
			place, path = "", value
		}
		if path == "" || placed && !filepath.IsAbs(place) {
			return o, usagef("%q: want FILE, or PLACE=FILE with an absolute place in the room, as in /usr/bin/x=./x", value)
		}
		o.From = append(o.From, room.Source{Path: path, To: place})
	}
	var err error
	o.Agent, err = findAgent(f.agent)
	return o, err
}

// findAgent is the agent's binary: the named one, or one that stands beside
// this program.
func findAgent(named string) (string, error) {
	if named != "" {
		if _, err := os.Stat(named); err != nil {
			return "", usagef("--agent: %s", plainPathError(err))
		}
		return named, nil
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("looking for the agent: %w", err)
	}
	for _, name := range []string{"batlehub-sandbox", "batlehub-sandbox-linux-" + runtime.GOARCH} {
		path := filepath.Join(filepath.Dir(self), name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", usagef("no agent stands beside %s; name it with --agent", self)
}
