package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/batleforc/batlehub-sandbox/runtime/room"
	"github.com/batleforc/batlehub-sandbox/wire"
	"github.com/batleforc/batlehub-sandbox/worker/internal/ui"
)

type treeFlags struct {
	from, images, commands         []string
	agent                          string
	libraries, allowShell, replace bool
}

func (a *app) treeCommand() *cobra.Command {
	var f treeFlags
	c := &cobra.Command{
		Use: "tree SCANNER", Short: "Build a scanner's room, from files or an image archive", Args: exactly(1, "the scanner's name"),
		Long: `Builds the tree that a scanner runs in under runtime "bwrap": the scanner, what
it needs, the agent, the mount points, and nothing else. It is put together
beside its place and checked, and appears at once or not at all.

Copying follows no link. A program that is linked with libraries needs
--libraries, or an image that has them.`,
		Example: `  sandboxctl tree gitleaks --from ./gitleaks
  sandboxctl tree guarddog --image guarddog.tar --command guarddog`,
		RunE: func(c *cobra.Command, args []string) error { return a.tree(c, args[0], f) },
	}
	flags := c.Flags()
	flags.StringArrayVar(&f.from, "from", nil, "`PATH[=PLACE]`: copy a file or a directory's content to PLACE in the room (default: a file to /usr/local/bin, a directory to /); may be given more than once")
	flags.StringArrayVar(&f.images, "image", nil, "`archive` of an image: an OCI layout, or what docker save wrote; may be given more than once")
	flags.StringArrayVar(&f.commands, "command", nil, "`program` that the finished room must hold; may be given more than once")
	flags.StringVar(&f.agent, "agent", "", "the agent's binary `file` (default: batlehub-sandbox beside this program)")
	flags.BoolVar(&f.libraries, "libraries", false, "copy the shared libraries that the room's programs are linked with from this host")
	flags.BoolVar(&f.allowShell, "allow-shell", false, "let the room have a shell; its probe will fail all the same")
	flags.BoolVar(&f.replace, "replace", false, "replace the room if it exists")
	return c
}

func (a *app) tree(c *cobra.Command, name string, f treeFlags) error {
	if err := (wire.Label{Worker: "x", Job: "x", Scanner: name, Attempt: 1}).Validate(); err != nil {
		return usagef("the scanner's name: %s", err)
	}
	if len(f.from)+len(f.images) == 0 {
		return usagef("nothing to build the room from; give --from or --image")
	}
	conf, err := a.load()
	if err != nil {
		return err
	}
	agent, err := findAgent(f.agent)
	if err != nil {
		return err
	}
	o := room.Options{Agent: agent, Commands: f.commands, Libraries: f.libraries, AllowShell: f.allowShell, Replace: f.replace}
	for _, image := range f.images {
		o.From = append(o.From, room.Source{Image: image})
	}
	for _, from := range f.from {
		path, place, _ := strings.Cut(from, "=")
		if place != "" && !filepath.IsAbs(place) {
			return usagef("--from %q: the place in the room is absolute, as in /usr/bin/x", from)
		}
		o.From = append(o.From, room.Source{Path: path, To: place})
	}
	report, err := room.Build(c.Context(), filepath.Join(conf.Worker.Sandbox.Bwrap.Rooms, name), o)
	if errors.Is(err, room.ErrExists) {
		return fmt.Errorf("%w; give --replace to replace it", err)
	}
	if err != nil {
		return err
	}
	for _, w := range report.Warnings {
		a.say("sandboxctl: warning: %s", w)
	}
	for _, s := range report.Skipped {
		a.say("sandboxctl: warning: left out %s: a room has no devices, FIFOs or sockets", s)
	}
	p := &printer{w: a.stdout}
	p.line("%s: %s, %s, %s", report.Dir, plural(int(report.Files), "file"), ui.Bytes(report.Bytes), report.Digest)
	return p.err
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
