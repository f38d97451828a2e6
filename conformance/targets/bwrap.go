package targets

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/runtime/bwrap"
	"github.com/batleforc/batlehub-sandbox/runtime/room"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// breakage is what is wrong with one bwrap of the suite's.
type breakage struct {
	// edits change bwrap's command line.
	edits []argvEdit
	// agent edits the agent's source before it is built.
	agent []Edit
	// noAgent leaves the agent out of the room.
	noAgent bool
	// writable gives the room to the user that bwrap runs as.
	writable bool
	// closed takes the right to write from the room's directories, so that a
	// root that is mounted read-write is not writable all the same.
	closed bool
	// extra is what an operator wrote into extra_args, for runtimes that take it.
	extra []string
	// ignore are verbs of the engine that are not carried out.
	ignore []string
	// files are put into the room once it is built, by their place in it.
	files map[string]string
}

type argvEdit struct {
	Find []string `json:"find"`
	With []string `json:"with"`
}

// Bwrap is the runtime over bubblewrap.
func Bwrap(ctx context.Context, b *Builder, self string) *conformance.Target {
	t := bwrapWith(b, breakage{})
	t.Versions = map[string]string{"bubblewrap": bwrapVersion(ctx)}
	t.Broken = func(ctx context.Context, s conformance.Setup, id assertion) (sandbox.Runtime, sandbox.Room, error) {
		return broken(ctx, b, s, id)
	}
	t.Mutants = bwrapMutants(b)
	if self != "" {
		t.Capabilities = append(t.Capabilities, conformance.Worker)
		t.Worker = workerOf(self, bwrapWorker)
	}
	return t
}

// bwrapWith is a target over bwrap with something broken, or nothing.
func bwrapWith(b *Builder, broken breakage) *conformance.Target {
	return &conformance.Target{
		Name: bwrap.Name,
		Capabilities: []conformance.Capability{
			conformance.Results, conformance.Timeouts, conformance.Walls, conformance.Sweep, conformance.Network, conformance.Probe, conformance.ProcessWall, conformance.UserNamespace,
		},
		Versions: map[string]string{},
		Scanner:  scanner,
		New: func(ctx context.Context, s conformance.Setup) (sandbox.Runtime, error) {
			return makeBwrap(ctx, b, s, "rooms", broken)
		},
		Program: inRoom,
		Left:    leftIn("runs"),
		Orphans: directories("runs"),
		Room: func(_ context.Context, s conformance.Setup) (sandbox.Room, error) {
			return roomToProbe(s), nil
		},
		Reference: newNone,
	}
}

func inRoom(s conformance.Setup, name string) string {
	return "/usr/local/bin/" + filepath.Base(s.Programs[name])
}

func roomToProbe(s conformance.Setup) sandbox.Room {
	return sandbox.Room{Scanner: scanner, Commands: []string{inRoom(s, "hostile")}}
}

// makeBwrap builds a room below the setup's directory, unless it stands, and
// the runtime over it.
func makeBwrap(ctx context.Context, b *Builder, s conformance.Setup, name string, broken breakage) (sandbox.Runtime, error) {
	rooms := filepath.Join(s.Dir, name)
	if _, err := os.Stat(filepath.Join(rooms, scanner)); err != nil {
		if err := buildRoom(ctx, b, s, filepath.Join(rooms, scanner), broken); err != nil {
			return nil, err
		}
	}
	c := bwrap.Config{Rooms: rooms, RunDir: filepath.Join(s.Dir, "runs"), Canaries: s.Canaries, Worker: s.Worker}
	if len(broken.edits) > 0 {
		binary, err := wrap(ctx, b, filepath.Join(s.Dir, name+"-bwrap"), broken.edits)
		if err != nil {
			return nil, err
		}
		c.Binary = binary
	}
	r, err := bwrap.New(c)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func buildRoom(ctx context.Context, b *Builder, s conformance.Setup, dir string, broken breakage) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	agent, err := b.AgentBinary(ctx, broken.agent...)
	if err != nil {
		return err
	}
	options := room.Options{Agent: agent}
	for _, path := range s.Programs {
		options.From = append(options.From, room.Source{Path: path})
	}
	if _, err := room.Build(ctx, dir, options); err != nil {
		return fmt.Errorf("building the room: %w", err)
	}
	if err := breakRoom(dir, broken); err != nil {
		return err
	}
	if broken.writable {
		return giveAway(dir)
	}
	if broken.closed {
		return closeDirectories(dir)
	}
	return nil
}

// breakRoom takes from a room and adds to it what is wrong with it.
func breakRoom(dir string, broken breakage) error {
	if broken.noAgent {
		if err := os.Remove(filepath.Join(dir, room.AgentPath)); err != nil {
			return err
		}
	}
	for place, content := range broken.files {
		file := filepath.Join(dir, place)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(content), 0o755); err != nil {
			return err
		}
	}
	return nil
}

func closeDirectories(dir string) error {
	return filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return os.Chmod(name, 0o555)
	})
}

// giveAway makes the room writable for the user that bwrap runs as.
func giveAway(dir string) error {
	return filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.Type()&os.ModeSymlink != 0 {
			return err
		}
		if os.Geteuid() == 0 {
			if err := os.Chown(name, bwrap.UID, bwrap.UID); err != nil {
				return err
			}
		}
		return os.Chmod(name, 0o755)
	})
}

// wrap puts the editor at path, with the edits beside it.
func wrap(ctx context.Context, b *Builder, path string, edits []argvEdit) (string, error) {
	real, err := bwrap.FindBinary(bwrap.DefaultBinary)
	if err != nil {
		return "", fmt.Errorf("finding bwrap: %w", err)
	}
	return path, b.editorAt(ctx, path, editorConfig{Program: real, When: "--", Edits: edits})
}

// editorConfig is what an editor is told.
type editorConfig struct {
	Program string     `json:"program"`
	When    string     `json:"when"`
	Edits   []argvEdit `json:"edits"`
	Ignore  []string   `json:"ignore"`
}

// editorAt puts the editor at path, with what it is told beside it.
func (b *Builder) editorAt(ctx context.Context, path string, c editorConfig) error {
	editor, err := b.editor(ctx)
	if err != nil {
		return err
	}
	if err := copyFile(editor, path); err != nil {
		return err
	}
	config, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return os.WriteFile(path+".json", config, 0o644)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		_ = out.Close()
		return err
	}
	return out.Close()
}

func bwrapVersion(ctx context.Context) string {
	path, err := bwrap.FindBinary(bwrap.DefaultBinary)
	if err != nil {
		return "missing"
	}
	v, ok := bwrap.ReadVersion(ctx, path)
	if !ok {
		return "unknown"
	}
	return v.String()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
