package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

func main() {
	bin := flag.String("bin", "out/bin", "directory with sandboxctl, gitleaks and the agent")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *bin); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		stop()
		os.Exit(1)
	}
}

// demo is where everything is.
type demo struct {
	sandboxctl, agent, gitleaks string
	// dir holds the room and the packages.
	dir string
}

func run(ctx context.Context, bin string) (err error) {
	d, err := find(bin)
	if err != nil {
		return err
	}
	// As root the sandboxes run as another uid, which has to get to the room:
	// so not below the checkout, which may be anybody's home.
	if d.dir, err = os.MkdirTemp("", "batlehub-sandbox-demo-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(d.dir)) }()
	if err := os.Chmod(d.dir, 0o755); err != nil { //nolint:gosec // see above
		return err
	}
	if err := d.room(ctx); err != nil {
		return err
	}
	packages, err := d.packages(ctx)
	if err != nil {
		return err
	}
	begun := time.Now()
	for _, p := range packages {
		if err := d.scan(ctx, p); err != nil {
			return err
		}
	}
	fmt.Printf("\n%d packages scanned in %.1fs, each in a sandbox that was proven first.\n", len(packages), time.Since(begun).Seconds())
	return nil
}

func find(bin string) (*demo, error) {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return nil, err
	}
	d := &demo{}
	for _, f := range []struct {
		path  *string
		names []string
	}{
		{&d.sandboxctl, []string{"sandboxctl"}},
		{&d.gitleaks, []string{"gitleaks"}},
		{&d.agent, []string{"batlehub-sandbox-linux-" + runtime.GOARCH, "batlehub-sandbox"}},
	} {
		for _, name := range f.names {
			if path := filepath.Join(bin, name); *f.path == "" && isFile(path) {
				*f.path = path
			}
		}
		if *f.path == "" {
			return nil, fmt.Errorf("%s has no %s; ./task build makes it", bin, f.names[0])
		}
	}
	return d, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func (d *demo) rooms() string { return filepath.Join(d.dir, "rooms") }

// room builds the tree that gitleaks runs in.
func (d *demo) room(ctx context.Context) error {
	fmt.Println("Building a room for gitleaks: the scanner, the agent, and nothing else.")
	cmd := exec.CommandContext(ctx, d.sandboxctl, "tree", "gitleaks", "--rooms", d.rooms(), //nolint:gosec // the demo's own programs
		"--file", d.gitleaks, "--agent", d.agent, "--command", "gitleaks")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building the room: %w", err)
	}
	return nil
}
