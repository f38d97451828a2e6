package room

import (
	"context"
	"errors"
)

// Source is one thing that goes into a room. Exactly one of Path and Image is
// set.
type Source struct {
	// Path is a file or directory of the host, copied to To. A directory's
	// content is copied, not the directory itself.
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
	// Agent is the agent's static binary, which goes to AgentPath.
	Agent string
	// From is what else goes in, in order; later sources win.
	From []Source
	// Commands are the programs that must be found in the finished room.
	Commands []string
	// Libraries says to copy the shared libraries that the room's programs
	// are linked with from the host.
	Libraries bool
	// AllowShell keeps a shell from being an error, for scanners that are one.
	AllowShell bool
	// Replace allows an existing room to be replaced.
	Replace bool
}

// Report is what Build made.
type Report struct {
	Dir    string
	Digest string
	Files  int64
	Bytes  int64
	// Warnings are the problems that Options allowed.
	Warnings []Problem
}

// Problem is one thing wrong with a room.
type Problem struct {
	// Rule is a stable name.
	Rule string
	// Path is the place in the room.
	Path string
	// Detail says what is wrong, Fix what to do about it.
	Detail string
	Fix    string
}

// Build makes the room at dir, at once or not at all.
func Build(ctx context.Context, dir string, o Options) (Report, error) {
	return Report{}, errors.ErrUnsupported
}

// Check reports what keeps the tree at dir from being a room for commands.
func Check(dir string, commands ...string) ([]Problem, error) { return nil, errors.ErrUnsupported }

// Digest is the SHA-256 of the tree at dir: names, types, permission bits,
// link targets and contents, and neither times nor owners.
func Digest(ctx context.Context, dir string) (string, error) { return "", errors.ErrUnsupported }
