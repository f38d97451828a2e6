package probe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// unwanted are the programs that a room must not have on PATH: a shell to
// start what an exploit brings along, or the worker's own programs. RFC 0022
// §4.3 names sh, bash, busybox and batlehub; the others are shells under other
// names, and this project's own program. Whoever builds rooms (runtime/room) has
// the same list.
var unwanted = []string{
	"sh", "bash", "busybox", "batlehub", "sandboxctl",
	"dash", "ash", "zsh", "ksh", "mksh", "csh", "tcsh", "fish", "rbash", "toybox", "pwsh",
}

// noShell: none of the unwanted programs is on PATH. In the worker's own image
// they are by construction, and finding them is a warning.
func (p *probe) noShell(context.Context) (wire.Outcome, string) {
	var found []string
	for _, dir := range p.pathDirs() {
		for _, name := range unwanted {
			file := filepath.Join(dir, name)
			if _, err := os.Lstat(p.in(file)); err == nil {
				found = append(found, file)
			}
		}
	}
	switch {
	case len(found) == 0:
		return pass("none of %s on %s", strings.Join(unwanted, ", "), p.Path)
	case p.request.WorkerRoom:
		return wire.Warn, "this is the worker's own image and has " + strings.Join(found, ", ")
	}
	return fail("found %s", strings.Join(found, ", "))
}

func (p *probe) pathDirs() []string {
	var dirs []string
	for dir := range strings.SplitSeq(p.Path, ":") {
		if filepath.IsAbs(dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// scannerCommand: every command that the manifest lists is an executable file,
// whose digest goes into the report.
func (p *probe) scannerCommand(context.Context) (wire.Outcome, string) {
	if len(p.request.Commands) == 0 {
		return wire.NotClaimed, "the manifest lists no command"
	}
	var seen, missing []string
	for _, command := range p.request.Commands {
		report, err := p.identify(command)
		if err != nil {
			missing = append(missing, err.Error())
			continue
		}
		p.commands = append(p.commands, report)
		seen = append(seen, fmt.Sprintf("%s (sha256 %.12s…)", report.Path, report.SHA256))
	}
	if len(missing) > 0 {
		return fail("%s", strings.Join(missing, "; "))
	}
	return pass("%s", strings.Join(seen, ", "))
}

// identify finds a command as the agent would and takes its digest.
func (p *probe) identify(command string) (wire.CommandReport, error) {
	candidates := []string{command}
	if !strings.Contains(command, "/") {
		candidates = nil
		for _, dir := range p.pathDirs() {
			candidates = append(candidates, filepath.Join(dir, command))
		}
	}
	failure := fmt.Errorf("%s is not on %s", command, p.Path)
	for _, path := range candidates {
		report, err := p.digest(command, path)
		switch {
		case err == nil:
			return report, nil
		case !errors.Is(err, os.ErrNotExist) || len(candidates) == 1:
			failure = err
		}
	}
	return wire.CommandReport{}, failure
}

var errNotRegular = errors.New("not a regular file")

func (p *probe) digest(command, path string) (wire.CommandReport, error) {
	report := wire.CommandReport{Command: command, Path: path}
	wrap := func(err error) error { return fmt.Errorf("%s: %w", path, plain(err)) }
	// A FIFO must not hold the probe up.
	file, err := os.OpenFile(p.in(path), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return report, wrap(err)
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return report, wrap(err)
	case !info.Mode().IsRegular():
		return report, wrap(errNotRegular)
	}
	if err := executable(p.in(path), info.Mode()); err != nil {
		return report, fmt.Errorf("%s can't be executed: %w", path, err)
	}
	hash := sha256.New()
	if report.Size, err = io.Copy(hash, file); err != nil {
		return report, wrap(err)
	}
	report.SHA256 = hex.EncodeToString(hash.Sum(nil))
	return report, nil
}

// executable asks the kernel, which also knows of noexec mounts; the bits are
// looked at because it lets uid 0 pass without any in some places.
func executable(path string, mode os.FileMode) error {
	if mode&0o111 == 0 {
		return unix.EACCES
	}
	return unix.Access(path, unix.X_OK)
}
