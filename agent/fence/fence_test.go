package fence_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed allow.txt
var allowText string

const (
	binary = "./cmd/batlehub-sandbox"
	module = "github.com/batleforc/batlehub-sandbox/"
)

// allow reads the allow file: each line with the reason above it.
func allow(t *testing.T) map[string]string {
	t.Helper()
	m := make(map[string]string)
	reason, open := "", false
	for i, line := range strings.Split(allowText, "\n") {
		switch comment, isComment := strings.CutPrefix(line, "# "); {
		case isComment && open:
			reason += " " + comment
		case isComment:
			reason, open = comment, true
		case line == "":
			open = false
		default:
			open = false
			if m[line] != "" || reason == "" {
				t.Errorf("allow.txt:%d: %q is there twice or without a reason", i+1, line)
			}
			m[line] = reason
		}
	}
	return m
}

// deps lists what the agent's binary is made of, as it ships.
func deps(t *testing.T, arch string, flags ...string) []string {
	t.Helper()
	args := append(append([]string{"list", "-e", "-deps"}, flags...), binary)
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v", strings.Join(args, " "), err)
	}
	return strings.Fields(string(out))
}

func allowed(allow map[string]string, pkg string) (line string, ok bool) {
	if allow[pkg] != "" {
		return pkg, true
	}
	for at := pkg; ; {
		slash := strings.LastIndexByte(at, '/')
		if slash < 0 {
			return "", false
		}
		at = at[:slash]
		if allow[at+"/..."] != "" {
			return at + "/...", true
		}
	}
}

// outside lists the packages that the fence does not allow.
func outside(allow map[string]string, deps []string) []string {
	var list []string
	for _, pkg := range deps {
		if _, ok := allowed(allow, pkg); !ok {
			list = append(list, pkg)
		}
	}
	return list
}

func TestTheAgentIsMadeOfWhatTheFenceAllowsAndNothingElse(t *testing.T) {
	list := allow(t)
	used := make(map[string]bool)
	for _, arch := range []string{"amd64", "arm64"} {
		all := deps(t, arch)
		for _, pkg := range outside(list, all) {
			t.Errorf("%s: %s is not in allow.txt: give a reason why it may be inside the walls, or remove it", arch, pkg)
		}
		for _, pkg := range all {
			line, _ := allowed(list, pkg)
			used[line] = true
		}
	}
	for line := range list {
		if !used[line] {
			t.Errorf("allow.txt allows %s, which nothing uses any more", line)
		}
	}
}

func TestTheFenceCatchesWhatMustNotGetIn(t *testing.T) {
	list := allow(t)
	target, err := filepath.Abs("../cmd/batlehub-sandbox/mutant.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range []string{
		"net/http", "net/http/pprof", "net/rpc", "os/exec", "os/signal", "flag", "log/slog", "expvar", "plugin", "text/template",
		"database/sql", module + "runtime/sandbox", module + "worker/config",
		"github.com/spf13/cobra", "github.com/sirupsen/logrus", "github.com/knadh/koanf/v2", "google.golang.org/grpc",
	} {
		t.Run(pkg, func(t *testing.T) {
			dir := t.TempDir()
			source := filepath.Join(dir, "mutant.go")
			if err := os.WriteFile(source, fmt.Appendf(nil, "package main\n\nimport _ %q\n", pkg), 0o600); err != nil {
				t.Fatal(err)
			}
			overlay := filepath.Join(dir, "overlay.json")
			b, err := json.Marshal(map[string]any{"Replace": map[string]string{target: source}})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(overlay, b, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, caught := range outside(list, deps(t, "amd64", "-overlay="+overlay)) {
				if caught == pkg {
					return
				}
			}
			t.Errorf("an import of %s went through the fence", pkg)
		})
	}
}

// environment are the names by which a program reads its environment.
var environment = map[string]bool{
	"Getenv": true, "LookupEnv": true, "Environ": true, "ExpandEnv": true,
	"ProxyFromEnvironment": true, "SystemCertPool": true, "UserHomeDir": true, "TempDir": true,
}

// reads lists the reads of the environment in one source file.
func reads(t *testing.T, name string, source any) []string {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && environment[s.Sel.Name] {
			if pkg, ok := s.X.(*ast.Ident); ok && (pkg.Name == "os" || pkg.Name == "syscall" || pkg.Name == "unix" || pkg.Name == "http" || pkg.Name == "x509") {
				list = append(list, fmt.Sprintf("%s: %s.%s", files.Position(n.Pos()), pkg.Name, s.Sel.Name))
			}
		}
		return true
	})
	return list
}

func TestTheAgentReadsNoEnvironment(t *testing.T) {
	looked := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && (d.Name() == "testdata" || path == filepath.Join("..", "internal", "probe")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		looked++
		for _, read := range reads(t, path, nil) {
			// The program hands a probe what it was started with, and clears it.
			if !strings.HasPrefix(read, "../cmd/batlehub-sandbox/main.go:") || !strings.HasSuffix(read, "os.Environ") {
				t.Errorf("%s", read)
			}
		}
		return nil
	})
	if err != nil || looked < 20 {
		t.Errorf("%d files were looked at (%v)", looked, err)
	}
}

func TestAReadOfTheEnvironmentIsSeen(t *testing.T) {
	for _, call := range []string{`os.Getenv("X")`, `os.LookupEnv("X")`, `os.Environ()`, `os.ExpandEnv("$X")`, `syscall.Getenv("X")`, `unix.Environ()`, `http.ProxyFromEnvironment`, `x509.SystemCertPool()`} {
		if found := reads(t, "mutant.go", "package p\nvar _, _ = "+call+", 0\n"); len(found) != 1 {
			t.Errorf("%s: %q", call, found)
		}
	}
}
