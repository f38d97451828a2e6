package heavy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pkg is one line of packages.txt.
type pkg struct{ ecosystem, name, version string }

func (p pkg) String() string { return p.ecosystem + "/" + strings.ReplaceAll(p.name, "/", "_") }

func packageList(t *testing.T) []pkg {
	t.Helper()
	f, err := os.Open("packages.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []pkg
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) != 3 {
			t.Fatalf("packages.txt: %q, want three fields", line)
		}
		all = append(all, pkg{fields[0], fields[1], fields[2]})
	}
	return all
}

// cacheDir keeps what was fetched: registries are asked once per machine.
func cacheDir(t *testing.T) string {
	t.Helper()
	user, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(user, "batlehub-sandbox", "packages")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// fetch returns the path of the package's archive, fetched by its own client.
func fetch(t *testing.T, p pkg) string {
	t.Helper()
	dir := filepath.Join(cacheDir(t), strings.NewReplacer("/", "_", "*", "_").Replace(strings.Join([]string{p.ecosystem, p.name, p.version}, "-")))
	if path := onlyFile(dir); path != "" {
		return path
	}
	fresh, err := os.MkdirTemp(cacheDir(t), "fetch-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(fresh)
	if err := fetchInto(t, fresh, p); err != nil {
		t.Skipf("not run: %s can't be fetched here: %v", p, err)
	}
	if onlyFile(fresh) == "" {
		t.Fatalf("%s: the client left no archive", p)
	}
	if err := os.Rename(fresh, dir); err != nil {
		t.Fatal(err)
	}
	return onlyFile(dir)
}

func onlyFile(dir string) string {
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 1 {
		return ""
	}
	return filepath.Join(dir, list[0].Name())
}

func fetchInto(t *testing.T, dir string, p pkg) error {
	switch p.ecosystem {
	case "npm":
		_, err := command(t, dir, "npm", "pack", "--silent", "--ignore-scripts", p.name+"@"+p.version)
		return err
	case "go":
		return fetchModule(t, dir, p)
	case "deb":
		return fetchDeb(t, dir, p.name)
	case "wheel", "jar":
		return fetchMember(t, dir, p)
	}
	return fmt.Errorf("unknown ecosystem %q", p.ecosystem)
}

func fetchModule(t *testing.T, dir string, p pkg) error {
	out, err := command(t, dir, "go", "mod", "download", "-json", p.name+"@"+p.version)
	if err != nil {
		return err
	}
	var module struct{ Zip string }
	if err := json.Unmarshal(out, &module); err != nil {
		return err
	}
	b, err := os.ReadFile(module.Zip)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, filepath.Base(module.Zip)), b, 0o644)
}

// fetchDeb asks apt, which wants a package list; an old one is updated once.
func fetchDeb(t *testing.T, dir, name string) error {
	if _, err := command(t, dir, "apt-get", "download", name); err == nil {
		return nil
	}
	if _, err := command(t, dir, "apt-get", "update"); err != nil {
		return err
	}
	_, err := command(t, dir, "apt-get", "download", name)
	return err
}

// fetchMember takes a wheel or jar out of the deb that ships it.
func fetchMember(t *testing.T, dir string, p pkg) error {
	work := t.TempDir()
	if err := fetchDeb(t, work, p.name); err != nil {
		return err
	}
	deb := onlyFile(work)
	if deb == "" {
		return fmt.Errorf("apt left no %s", p.name)
	}
	tree := filepath.Join(work, "tree")
	if _, err := command(t, work, "dpkg-deb", "-x", deb, tree); err != nil {
		return err
	}
	for _, place := range []string{"usr/share/java", "usr/share/python-wheels"} {
		found, err := filepath.Glob(filepath.Join(tree, place, p.version))
		if err != nil {
			return err
		}
		if len(found) > 0 {
			b, err := os.ReadFile(found[0])
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, filepath.Base(found[0])), b, 0o644)
		}
	}
	return fmt.Errorf("no %s in %s", p.version, p.name)
}

func command(t *testing.T, dir, name string, args ...string) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = dir
	// In a workspace "go mod download" would speak of the workspace's modules.
	c.Env = append(os.Environ(), "GOWORK=off", "GO111MODULE=on")
	out, err := c.Output()
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // Output returns it unwrapped.
		return out, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, lastLine(exit.Stderr))
	}
	return out, err
}

func lastLine(b []byte) string {
	s := strings.TrimSpace(string(b))
	return s[strings.LastIndexByte(s, '\n')+1:]
}
