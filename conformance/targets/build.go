package targets

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

const module = "github.com/batleforc/batlehub-sandbox"

// Builder builds the programs that the suite needs, each once, into a cache.
type Builder struct {
	// Cache is the directory for what was built.
	Cache string
	// Source is the directory of the conformance module; its siblings are the
	// other modules.
	Source string
	// Agent and Hostile, where set, are programs that need not be built.
	Agent, Hostile string
	// NoBuild takes from the cache what Prepare has put there, for users who
	// have no Go or may not read its caches.
	NoBuild bool

	mu       sync.Mutex
	done     map[string]string
	variants [][]Edit
}

// variant remembers an edited agent that will be asked for.
func (b *Builder) variant(edits []Edit) {
	if len(edits) > 0 {
		b.variants = append(b.variants, edits)
	}
}

// Edits are all edits of the agent's source that mutants and broken rooms are
// made with.
func Edits(b *Builder) []Edit {
	b.variants = nil
	bwrapMutants(b)
	ociMutants(&ociBase{builder: b})
	crunMutants(&crunBase{builder: b})
	kubernetesMutants(&kubernetesBase{builder: b})
	return slices.Concat(append(b.variants, noFilter, wireNext)...)
}

// Prepare builds everything that the suite may ask for, and lets every user
// read it.
func (b *Builder) Prepare(ctx context.Context) error {
	bwrapMutants(b)
	ociMutants(&ociBase{builder: b})
	crunMutants(&crunBase{builder: b})
	kubernetesMutants(&kubernetesBase{builder: b})
	for _, edits := range append(b.variants, noFilter, wireNext, nil) {
		if _, err := b.AgentBinary(ctx, edits...); err != nil {
			return err
		}
	}
	if _, err := b.HostileBinary(ctx); err != nil {
		return err
	}
	if _, err := b.editor(ctx); err != nil {
		return err
	}
	_, err := b.configEditor(ctx)
	return err
}

// NewBuilder finds the module's source from where the command was started, and
// the user's cache.
func NewBuilder(ctx context.Context, source, cache string) (*Builder, error) {
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			user = os.TempDir()
		}
		cache = filepath.Join(user, "batlehub-sandbox", "conformance")
	}
	if source == "" {
		cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module+"/conformance")
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("finding the source (start this inside the workspace, or give --source, or --agent and --hostile): %w", withStderr(err))
		}
		source = strings.TrimSpace(string(out))
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, fmt.Errorf("making the cache: %w", err)
	}
	return &Builder{Cache: cache, Source: source, done: map[string]string{}}, nil
}

func withStderr(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	return err
}

// Edit is one replacement in one source file. The text has to be there exactly
// once, or the program that is meant to be broken would not be.
type Edit struct {
	// File is below the workspace's root; with a "*" in it, the one file of
	// that pattern which has the text.
	File string
	Old  string
	New  string
}

// AgentBinary is the agent, as it is or with edits.
func (b *Builder) AgentBinary(ctx context.Context, edits ...Edit) (string, error) {
	if len(edits) == 0 && b.Agent != "" {
		return b.Agent, nil
	}
	return b.build(ctx, module+"/agent/cmd/batlehub-sandbox", "agent", edits)
}

// HostileBinary is the hostile program.
func (b *Builder) HostileBinary(ctx context.Context) (string, error) {
	if b.Hostile != "" {
		return b.Hostile, nil
	}
	return b.build(ctx, module+"/conformance/internal/hostile", "hostile", nil)
}

// editor is the program that stands in an engine's place.
func (b *Builder) editor(ctx context.Context) (string, error) {
	return b.build(ctx, module+"/conformance/internal/argvedit", "argvedit", nil)
}

// configEditor is the program that stands in an OCI runtime program's place.
func (b *Builder) configEditor(ctx context.Context) (string, error) {
	return b.build(ctx, module+"/conformance/internal/configedit", "configedit", nil)
}

// build builds one program, static and stripped. Go's own cache and the
// build id in the file decide whether there is anything to do.
func (b *Builder) build(ctx context.Context, pkg, name string, edits []Edit) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	overlay, key, err := b.overlay(edits)
	if err != nil {
		return "", err
	}
	out := filepath.Join(b.Cache, name+key)
	if done, ok := b.done[out]; ok {
		return done, nil
	}
	if b.NoBuild {
		if _, err := os.Stat(out); err != nil {
			return "", fmt.Errorf("%s is not in the cache (run with --prepare first): %w", filepath.Base(out), err)
		}
		return out, nil
	}
	args := []string{"build", "-trimpath", "-ldflags=-s -w", "-o", out}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Dir = b.Source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w: %s", pkg, err, bytes.TrimSpace(text))
	}
	b.done[out] = out
	return out, nil
}

// edit makes one edit in texts, which has the files that were edited before.
func (b *Builder) edit(texts map[string]string, e Edit) error {
	files, err := filepath.Glob(filepath.Join(filepath.Dir(b.Source), e.File))
	if err != nil {
		return fmt.Errorf("editing %s: %w", e.File, err)
	}
	times, where := 0, ""
	for _, file := range files {
		text, ok := texts[file]
		if !ok {
			content, err := os.ReadFile(file)
			if err != nil {
				return fmt.Errorf("editing %s: %w", e.File, err)
			}
			text = string(content)
		}
		if n := strings.Count(text, e.Old); n > 0 && !strings.HasSuffix(file, "_test.go") {
			times += n
			where = file
			e.New = strings.Replace(text, e.Old, e.New, 1)
		}
	}
	if times != 1 {
		return fmt.Errorf("editing %s: %q is there %d times, want once", e.File, e.Old, times)
	}
	texts[where] = e.New
	return nil
}

// Fits reports whether an edit can be made in the source as it is.
func (b *Builder) Fits(e Edit) error { return b.edit(map[string]string{}, e) }

// overlay writes the edited files and the map that puts them in the place of
// the real ones. The key names the edits.
func (b *Builder) overlay(edits []Edit) (path, key string, err error) {
	if len(edits) == 0 {
		return "", "", nil
	}
	texts := map[string]string{}
	for _, e := range edits {
		if err := b.edit(texts, e); err != nil {
			return "", "", err
		}
	}
	// Printed maps are sorted by key, so that the key is the edits' alone.
	sum := sha256.Sum256(fmt.Append(nil, texts))
	key = "-" + hex.EncodeToString(sum[:6])
	if b.NoBuild {
		return "", key, nil
	}
	replace := map[string]string{}
	for file, text := range texts {
		edited := filepath.Join(b.Cache, "overlay"+key+"-"+filepath.Base(file))
		if err := os.WriteFile(edited, []byte(text), 0o644); err != nil {
			return "", "", err
		}
		replace[file] = edited
	}
	document, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", "", err
	}
	path = filepath.Join(b.Cache, "overlay"+key+".json")
	return path, key, os.WriteFile(path, document, 0o644)
}
