package room

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/batleforc/batlehub-sandbox/runtime/internal/rmtree"
)

// AgentPath is where the agent is in a room, below the root.
const AgentPath = "usr/local/bin/batlehub-sandbox"

// Source is one thing that goes into a room. Exactly one of Path and Image is
// set.
type Source struct {
	// Path is a file or directory of the host, copied to To. A directory's
	// content is copied, not the directory itself. Links in it stay links.
	Path string
	// To is the place in the room, absolute; empty means "/" for a directory
	// and /usr/local/bin/<name> for a file.
	To string
	// Image is an image archive: an OCI image layout (a directory or a tar),
	// or the tar that docker save writes. Its layers become the room.
	Image string
}

// Options say what goes into a room.
type Options struct {
	// Agent is the agent's static binary, which goes to AgentPath. Empty means
	// that a source holds it.
	Agent string
	// From is what else goes in, in order; later sources win.
	From []Source
	// Commands are the programs that must be found in the finished room.
	Commands []string
	// Libraries says to copy the shared libraries that the room's programs
	// are linked with from the host. What a program loads by name while it
	// runs can't be known, and has to be a source.
	Libraries bool
	// AllowShell keeps a shell from being an error, for scanners that are one.
	AllowShell bool
	// Replace allows an existing room to be replaced. Nothing but a room ever
	// is, and an empty directory.
	Replace bool
}

// Report is what Build made.
type Report struct {
	Dir    string
	Digest string
	Files  int64
	Bytes  int64
	// Skipped names what a source held and a room can't: devices, FIFOs,
	// sockets, and anything in /tmp and where something is mounted.
	Skipped []string
	// Warnings are the problems that Options allowed.
	Warnings []Problem
}

// ProblemsError is a finished tree that is no room.
type ProblemsError struct{ Problems []Problem }

// Error names the first problem and counts the others.
func (e *ProblemsError) Error() string {
	s := "not a room: " + e.Problems[0].String()
	if n := len(e.Problems) - 1; n > 0 {
		s += fmt.Sprintf(" (and %d more)", n)
	}
	return s
}

// Build makes the room at dir, at once or not at all: it is put together under
// another name beside dir, checked, and renamed.
//
// Everything in it is readable for everybody and writable for the owner alone:
// directories have mode 0755, files 0644 or, if anybody may execute them, 0755.
// Owners, times, extended attributes and set-id bits are not kept.
func Build(ctx context.Context, dir string, o Options) (Report, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Report{}, err
	}
	if err := mayBuild(dir, o.Replace); err != nil {
		return Report{}, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return Report{}, fmt.Errorf("making a room: %w", err)
	}
	draft := filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+"."+strings.ToLower(rand.Text()[:12]))
	report, err := assemble(ctx, draft, o)
	if err == nil {
		err = place(draft, dir, o.Replace)
	}
	if err != nil {
		return Report{}, errors.Join(fmt.Errorf("making the room %s: %w", dir, err), rmtree.Remove(draft))
	}
	report.Dir = dir
	return report, nil
}

// assemble makes the whole room at draft.
func assemble(ctx context.Context, draft string, o Options) (Report, error) {
	var report Report
	if err := os.Mkdir(draft, 0o755); err != nil {
		return report, err
	}
	if err := os.Chmod(draft, 0o755); err != nil {
		return report, err
	}
	root, err := os.OpenRoot(draft)
	if err != nil {
		return report, err
	}
	defer root.Close()
	t := &tree{root: root, ownAgent: o.Agent != ""}
	for _, s := range o.From {
		if err := t.source(ctx, s); err != nil {
			return report, err
		}
	}
	if o.Agent != "" {
		if err := t.file(ctx, o.Agent, AgentPath); err != nil {
			return report, fmt.Errorf("the agent: %w", err)
		}
	}
	if o.Libraries {
		if err := t.libraries(ctx); err != nil {
			return report, err
		}
	}
	if err := t.finish(); err != nil {
		return report, err
	}
	report.Skipped = t.skipped
	if report.Warnings, err = judge(draft, o); err != nil {
		return report, err
	}
	sum, err := measure(ctx, root)
	report.Digest, report.Files, report.Bytes = sum.digest, sum.files, sum.bytes
	return report, err
}

func judge(draft string, o Options) (warnings []Problem, err error) {
	problems, err := Check(draft, o.Commands...)
	if err != nil {
		return nil, err
	}
	var fatal []Problem
	for _, p := range problems {
		if p.Rule == RuleShell && o.AllowShell {
			warnings = append(warnings, p)
		} else {
			fatal = append(fatal, p)
		}
	}
	if len(fatal) > 0 {
		return nil, &ProblemsError{fatal}
	}
	return warnings, nil
}
