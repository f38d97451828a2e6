package oci

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// unseen are flags by which extra_args could undo what a run relies on and no
// probe looks at from inside: its limits of processes and CPU, how it is found
// again and removed, and whose names it knows. To podman --purge is --rm.
var unseen = []string{
	"--pids-limit", "--cpus", "--cpu-period", "--cpu-quota", "--cpuset-cpus", "--rm", "--purge", "--name", "--label", "--label-file", "--detach",
	"--replace", "--timeout", "--no-hosts", "--hosts-file",
}

// owned are the paths that are the runtime's own in every container: where
// programs are looked for, what a bundle and the scratch space are, and what the
// engine shows of the kernel and writes about the network.
var owned = append(strings.Split(pathEnv, ":"), workDir, bundleDir, "/out", "/dev", "/proc", "/sys", "/etc/hosts", "/etc/resolv.conf")

// checkExtra refuses what extra_args may not say.
func (c Config) checkExtra() error {
	for _, o := range optionsOf(c.ExtraArgs) {
		switch {
		case slices.Contains(unseen, o.name):
			return fmt.Errorf("extra_args has %s, which takes away what no probe can see; leave it out", o.name)
		case o.name == "--add-host" && c.Engine == Podman:
			return fmt.Errorf("extra_args has %s, which podman does not take beside the --no-hosts of every run; leave it out, "+
				"and name an address, or use a network with a resolver", o.name)
		case o.name == "--volumes-from":
			return fmt.Errorf("extra_args has %s, which may mount anywhere; name each mount with --volume", o.name)
		case o.name == "--mount" && len(o.places()) == 0:
			return fmt.Errorf("extra_args has --mount %.128q, which does not say where; add destination=PATH", o.value)
		}
		for _, place := range o.places() {
			if own := o.hides(place); own != "" {
				return fmt.Errorf("extra_args has %s %.128q, which mounts on %.128q, and %s is the runtime's own; leave it out, or mount elsewhere",
					o.name, o.value, place, own)
			}
		}
	}
	return nil
}

// hides is the first owned path that a mount on a place is on, below or above;
// empty means none.
func (o option) hides(place string) string {
	for _, own := range owned {
		if o.name == "--device" && own == "/dev" {
			continue
		}
		if within(place, own) || within(own, place) {
			return own
		}
	}
	return ""
}

// within says whether a clean path is dir or below it.
func within(name, dir string) bool {
	return name == dir || dir == "/" || strings.HasPrefix(name, dir+"/")
}

// places are where a flag mounts, as clean absolute paths; most flags don't.
func (o option) places() []string {
	switch o.name {
	case "--tmpfs":
		place, _, _ := strings.Cut(o.value, ":")
		return rooted("/", place)
	case "--volume", "--device":
		// [SOURCE:]PLACE[:OPTIONS]
		parts := strings.Split(o.value, ":")
		return rooted("/", parts[min(1, len(parts)-1)])
	case "--mount":
		return rooted("/", targets(o.value)...)
	case "--secret":
		return rooted("/run/secrets", targets(o.value)...)
	}
	return nil
}

// targets are the values of a list of pairs that say where. Docker takes keys in
// either case, and quotes around a pair.
func targets(pairs string) []string {
	var list []string
	for _, pair := range strings.FieldsFunc(pairs, func(r rune) bool { return r == ',' || r == '"' }) {
		key, value, _ := strings.Cut(pair, "=")
		if slices.Contains([]string{"target", "destination", "dst"}, strings.ToLower(strings.TrimSpace(key))) {
			list = append(list, value)
		}
	}
	return list
}

// rooted are the places as an engine would find them, relative ones below dir.
func rooted(dir string, places ...string) []string {
	for i, place := range places {
		if !path.IsAbs(place) {
			place = path.Join(dir, place)
		}
		places[i] = path.Clean(place)
	}
	return places
}
