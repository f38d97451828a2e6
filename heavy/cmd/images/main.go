// Images checks an image that "podman save" or "docker save" wrote against the
// list of what may be in it, and writes down what it is.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/batleforc/batlehub-sandbox/heavy/internal/image"
)

// record is what is kept of a built image.
type record struct {
	// Name is the image's short name, as in "gitleaks" or "agent".
	Name string `json:"name"`
	// Reference names exactly this image to the engine that built it: by
	// digest where the engine knows one, else by the configuration's digest.
	Reference string `json:"reference"`
	Tag       string `json:"tag"`
	// ID is the digest of the configuration, Digest that of the manifest (empty
	// where the engine makes none before a push).
	ID            string       `json:"id"`
	Digest        string       `json:"digest"`
	Engine        string       `json:"engine"`
	EngineVersion string       `json:"engine_version"`
	Layers        []string     `json:"layers"`
	User          string       `json:"user"`
	Files         []image.File `json:"files"`
}

func main() {
	if err := check(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

func check(args []string) error {
	var r record
	flags := flag.NewFlagSet("images", flag.ContinueOnError)
	archive := flags.String("archive", "", "what \"save\" wrote")
	allow := flags.String("allow", "", "the lists of what may be in the image, with commas between")
	out := flags.String("out", "", "where the record goes")
	flags.StringVar(&r.Name, "name", "", "the image's short name")
	flags.StringVar(&r.Tag, "tag", "", "the tag that it was built as")
	flags.StringVar(&r.Digest, "digest", "", "the manifest's digest, where the engine knows it")
	flags.StringVar(&r.Engine, "engine", "", "what built it")
	flags.StringVar(&r.EngineVersion, "engine-version", "", "and its version")
	if err := flags.Parse(args); err != nil {
		return err
	}
	i, err := image.Open(*archive)
	if err != nil {
		return err
	}
	r.ID, r.Layers, r.User, r.Files = i.ID, i.Layers, i.Config.User, i.Files
	r.Reference = r.ID
	if r.Digest != "" {
		name, _, _ := strings.Cut(r.Tag, ":")
		r.Reference = name + "@" + r.Digest
	}
	list, err := image.ReadAllowlist(strings.Split(*allow, ",")...)
	if err != nil {
		return err
	}
	var faults []error
	for _, f := range list.Check(i.Files) {
		faults = append(faults, errors.New(f))
	}
	if i.Config.User != "65532:65532" {
		faults = append(faults, fmt.Errorf("its user is %q, want 65532:65532", i.Config.User))
	}
	if len(faults) > 0 {
		return fmt.Errorf("the image %s: %w", r.Name, errors.Join(faults...))
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(*out, append(b, '\n'), 0o644); err != nil {
		return err
	}
	fmt.Printf("%s: %s, %d entries, %s %s\n", r.Name, r.Reference, len(r.Files), r.Engine, r.EngineVersion)
	return nil
}
