package room

import (
	"bufio"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
)

// libraries copies from the host what the room's programs are linked with and
// the room lacks: their loader, and every library that they and those name.
func (t *tree) libraries(ctx context.Context) error {
	dirs := searchDirs{known: knownDirs(), configured: readLoaderConfig("/etc/ld.so.conf", 0)}
	queue, err := t.programs(ctx)
	if err != nil {
		return err
	}
	for seen := map[string]bool{}; len(queue) > 0; {
		name := queue[0]
		queue = queue[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		more, err := t.linked(ctx, name, dirs)
		if err != nil {
			return fmt.Errorf("the libraries of /%s: %w", name, err)
		}
		queue = append(queue, more...)
	}
	return nil
}

// programs lists the ELF files of the room.
func (t *tree) programs(ctx context.Context) ([]string, error) {
	var names []string
	err := fs.WalkDir(t.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		f, err := t.root.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		magic := make([]byte, 4)
		if _, err := f.ReadAt(magic, 0); err == nil && string(magic) == elf.ELFMAG {
			names = append(names, name)
		}
		return nil
	})
	return names, err
}

// linked puts what one program needs into the room, and returns what was added.
func (t *tree) linked(ctx context.Context, name string, dirs searchDirs) ([]string, error) {
	f, err := t.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	program, err := elf.NewFile(f)
	if err != nil {
		// Data that begins like a program is none of the loader's business.
		return nil, nil
	}
	wanted, err := program.ImportedLibraries()
	if err != nil {
		return nil, nil
	}
	var added []string
	if loader := interpreter(program); loader != "" {
		if err := t.copyLibrary(ctx, loader, loader, &added); err != nil {
			return nil, err
		}
	}
	search := append(runPaths(program, "/"+path.Dir(name)), dirs.known...)
	for _, library := range wanted {
		if t.hasLibrary(library, search, program) {
			continue
		}
		from := hostLibrary(library, search, program)
		to := from
		if from == "" {
			from, to = hostLibrary(library, dirs.configured, program), "/usr/lib/"+library
		}
		if from == "" {
			return nil, fmt.Errorf("%s is neither in the room nor on this host", library)
		}
		if err := t.copyLibrary(ctx, from, to, &added); err != nil {
			return nil, err
		}
	}
	return added, nil
}

func (t *tree) copyLibrary(ctx context.Context, from, to string, added *[]string) error {
	name := inRoom(to)
	if p, err := follow(t.root, name); err == nil {
		if _, err := t.root.Lstat(p); err == nil {
			return nil
		}
	}
	if err := t.file(ctx, from, name); err != nil {
		return err
	}
	p, err := follow(t.root, name)
	if err != nil {
		return err
	}
	*added = append(*added, p)
	return nil
}

func (t *tree) hasLibrary(library string, search []string, user *elf.File) bool {
	for _, dir := range search {
		p, err := follow(t.root, inRoom(path.Join(dir, library)))
		if err != nil {
			continue
		}
		f, err := t.root.Open(p)
		if err != nil {
			continue
		}
		fits := sameMachine(f, user)
		f.Close()
		if fits {
			return true
		}
	}
	return false
}

func hostLibrary(library string, search []string, user *elf.File) string {
	for _, dir := range search {
		name := filepath.Join(dir, library)
		f, err := bundle.OpenRegular(name)
		if err != nil {
			continue
		}
		fits := sameMachine(f, user)
		f.Close()
		if fits {
			return name
		}
	}
	return ""
}

func sameMachine(f *os.File, user *elf.File) bool {
	library, err := elf.NewFile(f)
	return err == nil && library.Machine == user.Machine && library.Class == user.Class
}

// interpreter is the loader that a dynamic program asks for, or nothing.
func interpreter(program *elf.File) string {
	for _, p := range program.Progs {
		if p.Type != elf.PT_INTERP || p.Filesz > 4096 {
			continue
		}
		b := make([]byte, p.Filesz)
		if _, err := p.ReadAt(b, 0); err == nil {
			return strings.TrimRight(string(b), "\x00")
		}
	}
	return ""
}

// runPaths are the directories that a program itself names.
func runPaths(program *elf.File, origin string) []string {
	var dirs []string
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		values, err := program.DynString(tag)
		if err != nil {
			continue
		}
		for _, list := range values {
			for dir := range strings.SplitSeq(list, ":") {
				dir = strings.NewReplacer("$ORIGIN", origin, "${ORIGIN}", origin).Replace(dir)
				if path.IsAbs(dir) {
					dirs = append(dirs, path.Clean(dir))
				}
			}
		}
	}
	return dirs
}

// searchDirs are where libraries are looked for: known to every loader, or
// known to this host's because it is configured so. A library of the latter
// kind moves to /usr/lib, for a room has no ld.so.cache that would lead to it.
type searchDirs struct{ known, configured []string }

// knownDirs are the directories that a loader searches by itself.
func knownDirs() []string {
	var dirs []string
	for _, base := range []string{"/lib", "/usr/lib"} {
		triples, err := filepath.Glob(base + "/*-linux-gnu*")
		if err != nil {
			continue
		}
		dirs = append(dirs, triples...)
	}
	return append(dirs, "/lib64", "/usr/lib64", "/lib", "/usr/lib")
}

// readLoaderConfig lists the directories of an ld.so.conf and of what it
// includes.
func readLoaderConfig(name string, depth int) []string {
	if depth > 4 {
		return nil
	}
	f, err := bundle.OpenRegular(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	var dirs []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line, _, _ := strings.Cut(lines.Text(), "#")
		fields := strings.Fields(line)
		switch {
		case len(fields) == 2 && fields[0] == "include":
			pattern := fields[1]
			if !filepath.IsAbs(pattern) {
				pattern = filepath.Join(filepath.Dir(name), pattern)
			}
			files, err := filepath.Glob(pattern)
			if err != nil && !errors.Is(err, filepath.ErrBadPattern) {
				continue
			}
			for _, file := range files {
				dirs = append(dirs, readLoaderConfig(file, depth+1)...)
			}
		case len(fields) == 1 && filepath.IsAbs(fields[0]):
			dirs = append(dirs, filepath.Clean(fields[0]))
		}
	}
	return dirs
}
