package targets

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/batleforc/batlehub-sandbox/conformance"
	"github.com/batleforc/batlehub-sandbox/runtime/oci"
	"github.com/batleforc/batlehub-sandbox/wire"
)

func (b *ociBase) orphans() conformance.Orphans {
	return conformance.Orphans{Instance: "container ", Plant: b.plant, Bystanders: b.bystanders}
}

// labelsOf are the labels by which the runtime knows its own.
func labelsOf(l wire.Label, deadline time.Time) []string {
	return []string{
		"--label", oci.LabelWorker + "=" + l.Worker, "--label", oci.LabelJob + "=" + l.Job,
		"--label", oci.LabelScanner + "=" + l.Scanner, "--label", fmt.Sprintf("%s=%d", oci.LabelDeadline, deadline.Unix()),
	}
}

// plant leaves a container that was made and never started, with its network
// and what its transport keeps beside it. Keys can't be made old: their age is
// the server's to tell, and a spec of its own is about them.
func (b *ociBase) plant(ctx context.Context, s conformance.Setup, l wire.Label, deadline time.Time) error {
	image, err := b.image(ctx, s, breakage{})
	if err != nil {
		return err
	}
	args := append([]string{"create", "--name", oci.ContainerName(l)}, labelsOf(l, deadline)...)
	if b.storage != nil {
		network := append([]string{"network", "create"}, labelsOf(l, deadline)...)
		if _, err := b.engine(ctx, append(network, oci.ContainerName(l))...); err != nil {
			return err
		}
		args = append(args, "--network", oci.ContainerName(l))
	}
	if _, err := b.engine(ctx, append(args, "--entrypoint", "batlehub-sandbox", image)...); err != nil {
		return err
	}
	if b.Transport == oci.Mount {
		return plantDirectory(filepath.Join(s.Dir, "runs"), l, deadline)
	}
	return nil
}

// bystanders are containers, networks, directories and keys that look like the
// runtime's: by name, by another label, by the same label's beginning.
func (b *ociBase) bystanders(ctx context.Context, s conformance.Setup) (conformance.Bystanders, error) {
	image, err := b.image(ctx, s, breakage{})
	if err != nil {
		return conformance.Bystanders{}, err
	}
	near, err := directoriesBeside(filepath.Join(s.Dir, "runs"), s)
	if err != nil {
		return near, err
	}
	containers := map[string][]string{
		"batlehub-sbx-bystander-" + s.Token + "-conformance-1": nil,
		"bystander-1-" + s.Token:                               {"--label", "io.batlehub.job=o07-" + s.Token, "--label", "io.batlehub.deadline=1"},
		"bystander-2-" + s.Token:                               {"--label", "io.batlehub.workers=" + s.Worker, "--label", "io.batlehub.deadline=1"},
		"bystander-3-" + s.Token:                               {"--label", "worker=" + s.Worker},
	}
	out := conformance.Bystanders{Names: near.Names}
	var names []string
	for name, labels := range containers {
		if _, err := b.engine(ctx, slices.Concat([]string{"create", "--name", name}, labels, []string{"--entrypoint", "batlehub-sandbox", image})...); err != nil {
			return out, err
		}
		names = append(names, name)
		out.Names = append(out.Names, "container "+name+" "+strings.Join(labels, " "))
	}
	network := "batlehub-sbx-bystander-" + s.Token
	if _, err := b.engine(ctx, "network", "create", network); err != nil {
		return out, err
	}
	out.Names = append(out.Names, "network "+network)
	keys, err := b.keysBeside(ctx, s)
	if err != nil {
		return out, err
	}
	out.Names = append(out.Names, keys...)
	out.Missing = func() ([]string, error) { return b.missing(ctx, near, names, network, keys) }
	out.Remove = func() error {
		errs := []error{near.Remove()}
		_, err := b.engine(context.WithoutCancel(ctx), append([]string{"rm", "-f"}, names...)...)
		errs = append(errs, err)
		_, err = b.engine(context.WithoutCancel(ctx), "network", "rm", network)
		errs = append(errs, err)
		if b.storage != nil {
			errs = append(errs, removeKeys(context.WithoutCancel(ctx), b.storage.store, keys))
		}
		return errors.Join(errs...)
	}
	return out, nil
}

// keysBeside puts objects there that are no bundle's, where there is a storage.
func (b *ociBase) keysBeside(ctx context.Context, s conformance.Setup) ([]string, error) {
	if b.storage == nil {
		return nil, nil
	}
	return plantKeysBeside(ctx, b.storage.store, s)
}

func (b *ociBase) missing(ctx context.Context, near conformance.Bystanders, containers []string, network string, keys []string) ([]string, error) {
	missing, err := near.Missing()
	if err != nil {
		return nil, err
	}
	for _, call := range []struct {
		args []string
		want []string
	}{
		{[]string{"ps", "-a", "--format", "{{.Names}}"}, containers},
		{[]string{"network", "ls", "--format", "{{.Name}}"}, []string{network}},
	} {
		there, err := b.engine(ctx, call.args...)
		if err != nil {
			return nil, err
		}
		for _, name := range call.want {
			if !slices.Contains(strings.Fields(there), name) {
				missing = append(missing, name)
			}
		}
	}
	if b.storage != nil {
		missing = append(missing, missingKeys(ctx, b.storage.store, keys)...)
	}
	return missing, nil
}
