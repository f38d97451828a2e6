package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// pack is one package to scan.
type pack struct {
	file string
	from string
	// want are the exit statuses that are right for it.
	want []int
	// whole shows the whole report and not one line.
	whole bool
}

const (
	clean    = 0
	findings = 1
	refused  = 4
)

var modules = []string{"rsc.io/quote@v1.5.2", "github.com/spf13/pflag@v1.0.9", "github.com/google/uuid@v1.6.0"}

var npmPackages = []string{"left-pad@1.3.0", "is-number@7.0.0", "semver@7.6.3"}

// patience bounds one fetch.
const patience = 2 * time.Minute

// packages fetches and makes what is scanned. What can't be fetched is said
// and left out: the demo needs no network beyond what is configured.
func (d *demo) packages(ctx context.Context) ([]pack, error) {
	var all []pack
	fmt.Println("Fetching packages through the Go module proxy and npm, as configured.")
	for _, module := range modules {
		file, err := goModule(ctx, module)
		all = fetched(all, pack{file, "Go module " + module, []int{clean, findings}, false}, err)
	}
	if _, err := exec.LookPath("npm"); err != nil {
		fmt.Println("  npm is not installed here: no npm packages")
	} else {
		for _, name := range npmPackages {
			file, err := npmPackage(ctx, d.dir, name)
			all = fetched(all, pack{file, "npm package " + name, []int{clean, findings}, false}, err)
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	ours, err := d.ownPackages()
	return append(all, ours...), err
}

func fetched(all []pack, p pack, err error) []pack {
	if err != nil {
		fmt.Printf("  left out: %s: %v\n", p.from, err)
		return all
	}
	return append(all, p)
}

// goModule returns the module's zip file in the module cache.
func goModule(ctx context.Context, module string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir = os.TempDir()
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	out, err := cmd.Output()
	var answer struct{ Zip, Error string }
	if jsonErr := json.Unmarshal(out, &answer); jsonErr != nil {
		return "", firstError(err, jsonErr)
	}
	if answer.Zip == "" {
		return "", errors.New(firstLine(answer.Error))
	}
	return answer.Zip, nil
}

// npmPackage fetches a package's tarball. Packing runs none of its scripts.
func npmPackage(ctx context.Context, dir, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "pack", "--json", "--ignore-scripts", "--no-update-notifier", "--pack-destination", dir, name)
	cmd.Dir = dir
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return "", err
	}
	var answer []struct{ Filename string }
	if err := json.Unmarshal(out, &answer); err != nil || len(answer) != 1 {
		return "", fmt.Errorf("npm pack printed something else than one file: %w", err)
	}
	return filepath.Join(dir, filepath.Base(answer[0].Filename)), nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
