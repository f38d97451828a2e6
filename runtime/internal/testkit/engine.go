package testkit

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// ToolPackage is the program that images of tests hold as /usr/bin/tool.
const ToolPackage = "github.com/batleforc/batlehub-sandbox/runtime/internal/testkit/tool"

// Engine skips a test whose engine is not there: "podman", "docker" or
// "docker_remap". scripts/engines.sh starts them, and says which there are.
func Engine(t testing.TB, name string) {
	t.Helper()
	switch value := os.Getenv("BATLEHUB_TEST_" + strings.ToUpper(name)); {
	case value == "1":
	case strings.HasPrefix(value, "not run:"):
		t.Skip(value)
	default:
		t.Skip(`not run: no engine; eval "$(scripts/engines.sh env)" after scripts/engines.sh up`)
	}
}

// ImageFile is one file of an image.
type ImageFile struct {
	// From is a program of this host; empty means that Content is what it
	// holds.
	From    string
	Content string
	Mode    int64
}

// Image makes an image of nothing but files, by their absolute path, and
// returns its name. It is removed with the test. env is the environment of the
// engine's command line, nil means this process's.
func Image(t testing.TB, engine string, env []string, files map[string]ImageFile) string {
	t.Helper()
	name := "localhost/batlehub-sandbox-test:" + strings.ToLower(rand.Text()[:12])
	run := func(stdin []byte, args ...string) {
		// An engine that waits for itself is no reason to wait for it.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, engine, args...)
		cmd.Stdin, cmd.Env = bytes.NewReader(stdin), env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", engine, args[0], err, out)
		}
	}
	run(layer(t, files), "import", "-", name)
	t.Cleanup(func() { run(nil, "rmi", "-f", name) })
	return name
}

// AgentImage makes an image of the agent and the tool, with changes: more
// files, or nil to leave one out. env is as in Image.
func AgentImage(t testing.TB, engine string, env []string, changes map[string]*ImageFile) string {
	t.Helper()
	return Image(t, engine, env, AgentFiles(t, changes))
}

func layer(t testing.TB, files map[string]ImageFile) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for path, f := range files {
		content := []byte(f.Content)
		if f.From != "" {
			var err error
			if content, err = os.ReadFile(f.From); err != nil {
				t.Fatal(err)
			}
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(path, "/"), Mode: f.Mode, Size: int64(len(content))}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
