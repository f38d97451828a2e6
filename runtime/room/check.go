package room

import (
	"bufio"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

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

// String is the problem in one line.
func (p Problem) String() string {
	s := p.Path + ": " + p.Detail
	if p.Fix != "" {
		s += "; " + p.Fix
	}
	return s
}

// The rules of a room.
const (
	// RuleMountPoint: a directory that something is mounted on is missing.
	RuleMountPoint = "mount-point"
	// RuleTmp: /tmp is neither missing nor in the work directory.
	RuleTmp = "tmp"
	// RuleAgent: the agent is missing or not a static program.
	RuleAgent = "agent"
	// RuleCommand: a command is missing or can't be started.
	RuleCommand = "command"
	// RuleShell: there is a shell or a program of the worker's.
	RuleShell = "no-shell"
	// RuleSetID: there is a set-id program.
	RuleSetID = "set-id"
	// RuleDevice: there is a device, a FIFO or a socket.
	RuleDevice = "device"
)

// searchPath is the PATH inside a sandbox.
var searchPath = []string{"usr/local/bin", "usr/bin", "bin"}

// unwanted are the programs that no room has on its PATH: with one of them, an
// escaped scanner has a tool. The probe looks for the same ones from inside.
var unwanted = []string{
	"sh", "bash", "busybox", "batlehub", "sandboxctl",
	"dash", "ash", "zsh", "ksh", "mksh", "csh", "tcsh", "fish", "rbash", "toybox", "pwsh",
}

// Check reports what keeps the tree at dir from being a room for commands. The
// error says that the tree could not be looked at.
func Check(dir string, commands ...string) ([]Problem, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("checking a room: %w", err)
	}
	defer root.Close()
	problems := checkMountPoints(root)
	problems = append(problems, checkAgent(root)...)
	for _, c := range commands {
		problems = append(problems, checkCommand(root, c)...)
	}
	for _, name := range unwanted {
		if p, ok := present(root, name); ok {
			problems = append(problems, Problem{RuleShell, "/" + p, "a room has no shell and no program of the worker's", "leave it out"})
		}
	}
	more, err := checkFiles(root)
	if err != nil {
		return nil, fmt.Errorf("checking a room: %w", err)
	}
	return append(problems, more...), nil
}

func checkMountPoints(root *os.Root) []Problem {
	const fix = "make the directory, or build the room with sandboxctl tree"
	var problems []Problem
	for _, name := range mountPoints {
		if info, err := root.Lstat(name); err != nil || !info.IsDir() {
			problems = append(problems, Problem{RuleMountPoint, "/" + name, "there is no directory to mount on", fix})
		}
	}
	if p, err := follow(root, "usr/bin"); err != nil || !isDir(root, p) {
		problems = append(problems, Problem{RuleMountPoint, "/usr/bin", "there is no directory, and the probe would not see that the root is read-only", fix})
	}
	if info, err := root.Lstat("tmp"); err == nil {
		target, _ := root.Readlink("tmp")
		if info.Mode()&fs.ModeSymlink == 0 || inRoom(target) != tmpTarget {
			problems = append(problems, Problem{RuleTmp, "/tmp", "it is not a link to work/tmp, the one writable place", "replace it: ln -s work/tmp tmp"})
		}
	}
	return problems
}

func checkAgent(root *os.Root) []Problem {
	const fix = "put the static binary batlehub-sandbox there"
	name, err := follow(root, AgentPath)
	if err != nil {
		name = AgentPath
	}
	f, err := root.Open(name)
	if err != nil {
		return []Problem{{RuleAgent, "/" + AgentPath, "the agent is missing", fix}}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return []Problem{{RuleAgent, "/" + AgentPath, "the agent is not an executable file", fix}}
	}
	program, err := elf.NewFile(f)
	if err != nil {
		return []Problem{{RuleAgent, "/" + AgentPath, "the agent is not a Linux program", fix}}
	}
	if interpreter(program) != "" {
		return []Problem{{RuleAgent, "/" + AgentPath, "the agent is linked with libraries; it has to be static", fix}}
	}
	return nil
}

// find looks a name up on the room's PATH.
func find(root *os.Root, name string) (string, bool) {
	for _, dir := range searchPath {
		p, err := follow(root, path.Join(dir, name))
		if err != nil {
			continue
		}
		if info, err := root.Lstat(p); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return p, true
		}
	}
	return "", false
}

// present looks for a name on the room's PATH as the probe does: whatever has
// it counts, a link that leads nowhere too.
func present(root *os.Root, name string) (string, bool) {
	for _, dir := range searchPath {
		d, err := follow(root, dir)
		if err != nil {
			continue
		}
		if p := path.Join(d, name); lstat(root, p) != nil {
			return p, true
		}
	}
	return "", false
}

func lstat(root *os.Root, name string) fs.FileInfo {
	info, err := root.Lstat(name)
	if err != nil {
		return nil
	}
	return info
}

// notExecutable finds a command that is there and is no program.
func notExecutable(root *os.Root, command string) (string, bool) {
	candidates := []string{inRoom(command)}
	if !path.IsAbs(command) {
		candidates = nil
		for _, dir := range searchPath {
			candidates = append(candidates, path.Join(dir, command))
		}
	}
	for _, name := range candidates {
		p, err := follow(root, name)
		if err != nil {
			continue
		}
		if info := lstat(root, p); info != nil {
			if info.Mode().IsRegular() {
				return "/" + name + " is not executable", true
			}
			return "/" + name + " is not a file", true
		}
	}
	return "", false
}

func checkCommand(root *os.Root, command string) []Problem {
	const fix = "add it to the room's sources"
	var name string
	var found bool
	if path.IsAbs(command) {
		p, err := follow(root, inRoom(command))
		info, statErr := root.Lstat(p)
		found = err == nil && statErr == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
		name = p
	} else {
		name, found = find(root, command)
	}
	if fault, there := notExecutable(root, command); !found && there {
		return []Problem{{RuleCommand, command, fault, "chmod +x what it is copied from, and build the room again"}}
	}
	if !found {
		return []Problem{{RuleCommand, command, "there is no such program in the room", fix}}
	}
	if missing := needs(root, name); missing != "" {
		return []Problem{{RuleCommand, "/" + name, "it needs " + missing + ", which is not in the room", "add it, or build with the host's: --libraries"}}
	}
	return nil
}

// needs names the interpreter that a program can't be started without and that
// is missing, or nothing.
func needs(root *os.Root, name string) string {
	f, err := root.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	var wanted string
	if program, err := elf.NewFile(f); err == nil {
		wanted = interpreter(program)
	} else if line, err := firstLine(f); err == nil && strings.HasPrefix(line, "#!") {
		fields := strings.Fields(line[2:])
		if len(fields) == 0 {
			return ""
		}
		wanted = fields[0]
		if path.Base(wanted) == "env" && len(fields) > 1 {
			if _, ok := find(root, fields[1]); !ok {
				return fields[1]
			}
		}
	}
	if wanted == "" {
		return ""
	}
	p, err := follow(root, inRoom(wanted))
	if err != nil {
		return wanted
	}
	if info, err := root.Lstat(p); err != nil || !info.Mode().IsRegular() {
		return wanted
	}
	return ""
}

func firstLine(f *os.File) (string, error) {
	if _, err := f.Seek(0, 0); err != nil {
		return "", err
	}
	line, err := bufio.NewReaderSize(f, 256).ReadSlice('\n')
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) && len(line) == 0 {
		return "", err
	}
	return strings.TrimSpace(string(line)), nil
}

func checkFiles(root *os.Root) ([]Problem, error) {
	var problems []Problem
	err := fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := info.Mode()
		switch {
		case mode&(fs.ModeSetuid|fs.ModeSetgid) != 0 && mode.IsRegular():
			problems = append(problems, Problem{RuleSetID, "/" + name, "it is set-id", "chmod ug-s"})
		case mode&(fs.ModeDevice|fs.ModeNamedPipe|fs.ModeSocket) != 0:
			problems = append(problems, Problem{RuleDevice, "/" + name, "it is a device, FIFO or socket", "remove it"})
		}
		return nil
	})
	return problems, err
}

func isDir(root *os.Root, name string) bool {
	info, err := root.Lstat(name)
	return err == nil && info.IsDir()
}
