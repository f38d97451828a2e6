package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// Containers is what the oci runtime tells a doctor.
type Containers struct {
	// MinVersion is the first release of an engine that will do.
	MinVersion func(engine string) string
	// Version finds the version in what "--version" printed, empty if there is
	// none, and whether it is new enough.
	Version func(engine, printed string) (string, bool)
	// Pinned says whether an image's name names its content.
	Pinned func(image string) (bool, error)
	// LosesNetworks says whether a rootful podman would leave the networks of
	// runs behind on this host.
	LosesNetworks func() bool
}

// oci looks at the engine, and at what only the configuration asks of it where
// this is the configured runtime.
func (h Host) oci(ctx context.Context) []Check {
	path, checks := h.engineProgram(ctx)
	if path != "" {
		checks = append(checks, h.engineItself(ctx, path)...)
	}
	for i := range checks {
		checks[i].Runtime = "oci"
	}
	return checks
}

func (h Host) engineProgram(ctx context.Context) (string, []Check) {
	const name = "engine program"
	c := h.Sandbox.OCI
	fixes := []string{"apt-get install " + packageOf(c.Engine), "or set [worker.sandbox.oci] engine or binary"}
	path, err := h.Look(c.Binary)
	if err != nil {
		return "", []Check{{Name: name, Outcome: Fail, Detail: fmt.Sprintf("there is no program %q", c.Binary), Fixes: fixes}}
	}
	printed, said, err := h.Run(ctx, path, "--version")
	if err != nil {
		return "", []Check{{Name: name, Outcome: Fail, Detail: fmt.Sprintf("%s can't be run: %v%s", path, err, quoted(said)), Fixes: fixes}}
	}
	version, enough := h.OCI.Version(c.Engine, printed)
	least := h.OCI.MinVersion(c.Engine)
	switch {
	case version == "":
		return path, []Check{{Name: name, Outcome: Caution, Detail: fmt.Sprintf("%s names no version; %s %s or later is needed", path, c.Engine, least)}}
	case !enough:
		return "", []Check{{Name: name, Outcome: Fail, Detail: fmt.Sprintf("%s is %s, which is older than %s", path, version, least), Fixes: []string{fmt.Sprintf("install %s %s or later", c.Engine, least)}}}
	}
	return path, []Check{{Name: name, Outcome: Pass, Detail: fmt.Sprintf("%s, %s %s", path, c.Engine, version)}}
}

func packageOf(engine string) string {
	if engine == "docker" {
		return "docker.io"
	}
	return "podman uidmap"
}

// engineFacts are what is read of an engine's info.
type engineFacts struct {
	rootless, remapped bool
	// missing are the controllers without which a limit is none.
	missing []string
	version string
}

func (h Host) engineItself(ctx context.Context, path string) []Check {
	facts, check := h.engineInfo(ctx, path)
	checks := []Check{check}
	if check.Outcome == Fail {
		return checks
	}
	checks = append(checks, h.engineIdentity(facts), h.engineLimits(facts))
	if h.Sandbox.OCI.Engine == "podman" {
		checks = append(checks, h.subordinate(facts)...)
		checks = append(checks, h.propagation(facts))
	}
	if h.storageNetworks() || h.Sandbox.OCI.EgressPool.IsValid() {
		checks = append(checks, h.firewall(ctx, facts))
	}
	return append(checks, h.images(ctx, path)...)
}

// engineInfo asks the engine what it is.
func (h Host) engineInfo(ctx context.Context, path string) (engineFacts, Check) {
	const name = "engine"
	var facts engineFacts
	read, args := readPodman, []string{"info", "--format", "json"}
	fixes := []string{"see what " + path + " info says"}
	if h.Sandbox.OCI.Engine == "docker" {
		read, args = readDocker, []string{"info", "--format", "{{json .}}"}
		fixes = []string{"start the daemon (systemctl start docker)", "or set DOCKER_HOST to where it listens, or let this user reach its socket, which is to give it root"}
	}
	printed, said, err := h.Run(ctx, path, args...)
	if err == nil {
		facts, err = read([]byte(printed))
	}
	if err != nil {
		return facts, Check{Name: name, Outcome: Fail, Detail: fmt.Sprintf("it does not answer: %v%s", err, quoted(said)), Fixes: fixes}
	}
	return facts, Check{Name: name, Outcome: Pass, Detail: "it answers" + facts.version}
}

func readPodman(b []byte) (engineFacts, error) {
	var info struct {
		Host struct {
			CgroupVersion     string
			CgroupControllers []string
			Security          struct{ Rootless bool }
		}
	}
	if err := json.Unmarshal(b, &info); err != nil {
		return engineFacts{}, fmt.Errorf("its info can't be read: %w", err)
	}
	f := engineFacts{rootless: info.Host.Security.Rootless}
	for _, c := range []string{"memory", "pids", "cpu"} {
		if !slices.Contains(info.Host.CgroupControllers, c) || f.rootless && info.Host.CgroupVersion == "v1" {
			f.missing = append(f.missing, c)
		}
	}
	return f, nil
}

func readDocker(b []byte) (engineFacts, error) {
	var info struct {
		ServerVersion          string
		ServerErrors           []string
		SecurityOptions        []string
		MemoryLimit, PidsLimit bool
	}
	if err := json.Unmarshal(b, &info); err != nil {
		return engineFacts{}, fmt.Errorf("its info can't be read: %w", err)
	}
	if len(info.ServerErrors) > 0 || info.ServerVersion == "" {
		return engineFacts{}, fmt.Errorf("%s", strings.Join(append(info.ServerErrors, "the daemon said nothing")[:1], "; "))
	}
	f := engineFacts{version: ", docker " + info.ServerVersion}
	for _, option := range info.SecurityOptions {
		name, _, _ := strings.Cut(option, ",")
		f.rootless = f.rootless || name == "name=rootless"
		f.remapped = f.remapped || name == "name=userns"
	}
	if !info.MemoryLimit {
		f.missing = append(f.missing, "memory")
	}
	if !info.PidsLimit {
		f.missing = append(f.missing, "pids")
	}
	return f, nil
}

func (h Host) engineIdentity(f engineFacts) Check {
	const name = "privilege"
	switch {
	case f.rootless && h.storageNetworks():
		return Check{Name: name, Outcome: Fail, Detail: "a rootless engine has no network that reaches the storage alone, so runs without network are refused under transport storage", Fixes: []string{"set [worker.sandbox.oci] transport = \"mount\"", "or use a rootful engine"}}
	case f.rootless:
		return Check{Name: name, Outcome: Pass, Detail: "rootless: an escape from a container lands on an unprivileged user"}
	case h.Sandbox.OCI.Engine == "docker" && !f.remapped:
		return Check{Name: name, Outcome: Caution, Detail: "whoever reaches the docker socket is root on this host, the worker included, and containers have this host's user ids", Fixes: []string{"use rootless podman", "or start the daemon with --userns-remap=default"}}
	case h.Sandbox.OCI.Engine == "docker":
		return Check{Name: name, Outcome: Caution, Detail: "whoever reaches the docker socket is root on this host, the worker included; user ids are remapped", Fixes: []string{"use rootless podman"}}
	}
	return Check{Name: name, Outcome: Caution, Detail: "the engine runs as root, each container in user ids of its own", Fixes: []string{"run the worker and podman as a user of its own"}}
}

func (h Host) engineLimits(f engineFacts) Check {
	const name = "limits"
	if len(f.missing) == 0 {
		return Check{Name: name, Outcome: Pass, Detail: "containers can be given limits"}
	}
	fix := "give the engine those controllers"
	if f.rootless {
		fix = "use cgroup v2 with these controllers delegated to this user (systemd: Delegate=cpu memory pids)"
	}
	return Check{
		Name: name, Outcome: Caution, Fixes: []string{fix, "or use a rootful engine"},
		Detail: "no container can be limited in " + strings.Join(f.missing, ", ") + ": what is left of them is RLIMIT_AS of each process, and the probe claims no memory wall",
	}
}

// perContainer is how many user ids a container takes: it runs as uid 65532.
const perContainer = 65536

// subordinate looks for the user ids that --userns auto takes for each
// container: those of the worker's user, or of the user "containers" for root.
func (h Host) subordinate(f engineFacts) []Check {
	user, uid := "containers", 0
	if f.rootless {
		user, uid = h.User, h.EUID
	}
	var checks []Check
	for _, file := range []string{"subuid", "subgid"} {
		check := Check{Name: file, Outcome: Pass}
		path := filepath.Join(h.Etc, file)
		count := subordinateIDs(path, user, uid)
		fits := count / perContainer
		check.Detail = fmt.Sprintf("%s has %d ids for %s, enough for %d containers at a time", path, count, user, fits)
		fix := fmt.Sprintf("echo %s:2147483647:2147483648 >> %s", user, path)
		if f.rootless {
			fix = fmt.Sprintf("usermod --add-sub%ss 1000000-%d %s, then podman system migrate", strings.TrimPrefix(file, "sub"), 1_000_000+perContainer*(h.Parallel+1)-1, user)
		}
		switch {
		case fits == 0:
			check.Outcome, check.Fixes = Fail, []string{fix}
			check.Detail = fmt.Sprintf("%s has %d ids for %s, and each container takes %d (--userns auto)", path, count, user, perContainer)
		case fits < h.Parallel:
			check.Outcome, check.Fixes = Caution, []string{fix, "or lower [worker] max_concurrent"}
		}
		checks = append(checks, check)
	}
	return checks
}

// images looks for the images that the configuration needs, where it is this
// runtime's.
func (h Host) images(ctx context.Context, path string) []Check {
	if h.Sandbox.Runtime != "oci" {
		return nil
	}
	if len(h.Images) == 0 {
		return []Check{{Name: "images", Outcome: Skipped, Detail: "no scanner is configured", Fixes: []string{"add a [scanners.<name>] table, or see sandboxctl scan --scanner"}}}
	}
	var checks []Check
	for _, image := range h.Images {
		checks = append(checks, h.imageOf(ctx, path, image))
	}
	return checks
}

func (h Host) imageOf(ctx context.Context, path string, image Image) Check {
	name := "image " + image.Scanner
	if image.Name == "" {
		return Check{Name: name, Outcome: Fail, Detail: image.Problem, Fixes: []string{fmt.Sprintf("set [scanners.%s] image", image.Scanner)}}
	}
	pinned, err := h.OCI.Pinned(image.Name)
	if err != nil {
		return Check{Name: name, Outcome: Fail, Detail: err.Error(), Fixes: []string{"name it as registry/name@sha256:…"}}
	}
	pull := h.Sandbox.OCI.Engine + " pull " + image.Name
	_, _, err = h.Run(ctx, path, "image", "inspect", "--format", "{{.Id}}", image.Name)
	switch {
	case err != nil && h.Sandbox.OCI.Pull == "never":
		return Check{Name: name, Outcome: Fail, Detail: image.Name + " is not there, and pull = \"never\"", Fixes: []string{pull, "or set [worker.sandbox.oci] pull = \"if-absent\""}}
	case err != nil:
		return Check{Name: name, Outcome: Caution, Detail: image.Name + " is not there; the first run pulls it, within start_timeout_secs", Fixes: []string{pull}}
	case !pinned:
		return Check{Name: name, Outcome: Caution, Detail: image.Name + " is there, by a tag, which can come to mean another image", Fixes: []string{"name it by its digest, as registry/name@sha256:…"}}
	}
	return Check{Name: name, Outcome: Pass, Detail: image.Name}
}

func quoted(said string) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	// nft repeats the rule and points at the place in it.
	for len(lines) > 1 && !strings.ContainsFunc(lines[len(lines)-1], unicode.IsLetter) {
		lines = lines[:len(lines)-2]
	}
	if len(lines) == 0 || lines[len(lines)-1] == "" {
		return ""
	}
	return fmt.Sprintf(": %q", lines[len(lines)-1])
}

// Image is the image that a scanner runs in, or the problem of having none.
type Image struct{ Scanner, Name, Problem string }
