package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/batleforc/batlehub-sandbox/wire"
)

// Runtimes are the values of [worker.sandbox] runtime, in the order in which
// messages list them.
var Runtimes = []string{"none", "bwrap", "oci", "kubernetes", "crun"}

// built are the runtimes that this build has.
var built = slices.DeleteFunc(slices.Clone(Runtimes), func(name string) bool { return slices.Contains(absent, name) })

// imageRuntimes are the runtimes whose runs are opened from an image.
var imageRuntimes = []string{"oci", "kubernetes"}

// rejected are runtimes that were considered and are not built, with the
// reason (RFC 0022 §5.4, §8).
var rejected = map[string]string{
	"remote":      "a daemon that sandboxes for others is not built",
	"systemd-run": "it needs root or the same user namespaces",
	"microvm":     "on Kubernetes a runtime class does this",
	"wasm":        "the scanners are no WASI modules",
	"nsjail":      "it needs what bwrap needs",
}

func (d *document) decode() (*Config, error) {
	c := &Config{Scanners: map[string]Scanner{}}
	sandbox := "worker" + sep + "sandbox" + sep
	c.Worker = Worker{
		MaxConcurrent:  d.k.Int64("worker" + sep + "max_concurrent"),
		Registries:     d.k.Strings("worker" + sep + "registries"),
		JobTimeoutSecs: d.k.Int64("worker" + sep + "job_timeout_secs"),
		MaxAttempts:    d.k.Int64("worker" + sep + "max_attempts"),
		Sandbox: Sandbox{
			Runtime:           d.k.String(sandbox + "runtime"),
			MemoryLimitMB:     d.k.Int64(sandbox + "memory_limit_mb"),
			CPUSeconds:        d.k.Int64(sandbox + "cpu_seconds"),
			MaxArtifactMB:     d.k.Int64(sandbox + "max_artifact_mb"),
			MaxExtractedMB:    d.k.Int64(sandbox + "max_extracted_mb"),
			MaxEntries:        d.k.Int64(sandbox + "max_entries"),
			StartTimeoutSecs:  d.k.Int64(sandbox + "start_timeout_secs"),
			ProbeIntervalSecs: d.k.Int64(sandbox + "probe_interval_secs"),
			BundleBackend:     d.k.String(sandbox + "bundle_backend"),
			BundlePrefix:      d.k.String(sandbox + "bundle_prefix"),
			BundleTTLSecs:     d.k.Int64(sandbox + "bundle_ttl_secs"),
			RunDir:            d.k.String(sandbox + "run_dir"),
			Bwrap: Bwrap{
				Binary: d.k.String(sandbox + "bwrap" + sep + "binary"),
				Rooms:  d.k.String(sandbox + "bwrap" + sep + "rooms"),
			},
		},
	}
	if err := d.decodeOCI(&c.Worker.Sandbox.OCI); err != nil {
		return nil, err
	}
	if err := d.decodeKubernetes(&c.Worker.Sandbox.Kubernetes); err != nil {
		return nil, err
	}
	if err := d.decodeCrun(&c.Worker.Sandbox.Crun); err != nil {
		return nil, err
	}
	if err := d.checkPlaces(c.Worker.Sandbox.Runtime); err != nil {
		return nil, err
	}
	if err := d.validateSandbox(c); err != nil {
		return nil, err
	}
	if err := d.decodeStorage(c); err != nil {
		return nil, err
	}
	c.addImage(d, strings.ReplaceAll(tableSandbox, ".", sep)+sep+c.Worker.Sandbox.Runtime+sep+"image", "")
	return c, d.decodeScanners(c)
}

// addImage adds the image at that path to those of the configuration, if there
// is one.
func (c *Config) addImage(d *document, path, scanner string) {
	if name := d.k.String(path); name != "" {
		file, line := d.origin(path)
		c.Images = append(c.Images, Image{Name: name, Scanner: scanner, File: file, Line: line})
	}
}

func (d *document) validateSandbox(c *Config) error {
	s, path := c.Worker.Sandbox, func(name string) string { return strings.ReplaceAll(tableSandbox+"."+name, ".", sep) }
	if err := CheckRuntime(s.Runtime); err != nil {
		return d.refuse(path("runtime"), "%v", err)
	}
	if fault := prefixFault(s.BundlePrefix); fault != "" {
		return d.refuse(path("bundle_prefix"), "bundle_prefix %.64q %s; want one path segment with a trailing slash, such as \"sandbox/\"", s.BundlePrefix, fault)
	}
	for name, value := range map[string]string{"binary": s.Bwrap.Binary, "rooms": s.Bwrap.Rooms} {
		if value == "" {
			return d.refuse(path("bwrap")+sep+name, "worker.sandbox.bwrap.%s is empty; leave the key out for the default", name)
		}
	}
	if err := d.checkProgram(path("bwrap")+sep+"binary", s.Bwrap.Binary, "bwrap"); err != nil {
		return err
	}
	if s.memoryDir() && s.MaxExtractedMB >= s.MemoryLimitMB {
		blame := path("max_extracted_mb")
		if !d.set(blame) {
			blame = path("memory_limit_mb")
		}
		return d.refuse(blame, "max_extracted_mb is %d and memory_limit_mb %d: under runtime '%s' /work is memory and charged to the same limit, so a scanner would have none left; want less than memory_limit_mb", s.MaxExtractedMB, s.MemoryLimitMB, s.Runtime)
	}
	if s.Runtime == "crun" && d.set(path("run_dir")) {
		d.warn(c, path("run_dir"), "run_dir has no effect under runtime %q; its runs are below [worker.sandbox.crun] state_dir", s.Runtime)
	}
	if s.Runtime == "kubernetes" && d.set(path("run_dir")) {
		d.warn(c, path("run_dir"), "run_dir has no effect under runtime %q, whose runs have no directory here", s.Runtime)
	}
	for _, name := range Runtimes {
		if name != s.Runtime && d.set(path(name)) && !d.flagged(path("runtime")) {
			d.warn(c, path(name), "[worker.sandbox.%s] has no effect under runtime %q", name, s.Runtime)
		}
	}
	return nil
}

// CheckRuntime refuses what is not a runtime of this build, saying what is.
func CheckRuntime(name string) error {
	list := strings.Join(Runtimes, ", ")
	switch {
	case slices.Contains(built, name):
		return nil
	case slices.Contains(Runtimes, name):
		return fmt.Errorf("runtime %q is not in this build; it has %s", name, strings.Join(built, ", "))
	case rejected[name] != "":
		return fmt.Errorf("runtime %q is not supported (%s); one of %s", name, rejected[name], list)
	}
	if near := Nearest(name, Runtimes); near != "" {
		return fmt.Errorf("runtime %.64q is not known; did you mean %q? one of %s", name, near, list)
	}
	return fmt.Errorf("runtime %.64q is not known; one of %s", name, list)
}

// prefixFault says what is wrong with a bundle prefix. The proxy's own keys
// begin with the reserved ones, and nothing a sandbox may write can share a
// prefix with them (RFC 0022 §4.3).
func prefixFault(prefix string) string {
	name, slash := strings.CutSuffix(prefix, "/")
	switch {
	case !slash:
		return "does not end in a slash"
	case name == "" || name == "." || name == "..":
		return "has no name before the slash"
	case strings.Contains(name, "/"):
		return "has more than one segment"
	case strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }):
		return "has a character that no key should have"
	case name == "blob":
		return "is where the storage keeps its blobs"
	}
	for _, reserved := range []string{"artifact:", "local:", "meta:"} {
		if strings.HasPrefix(prefix, reserved) {
			return fmt.Sprintf("begins with the reserved %q", reserved)
		}
	}
	return ""
}

func (d *document) decodeScanners(c *Config) error {
	for _, name := range slices.Sorted(slices.Values(d.k.MapKeys("scanners"))) {
		s, err := d.decodeScanner(name)
		if err != nil {
			return err
		}
		path := "scanners" + sep + name
		if s.Image != "" && !c.Worker.Sandbox.Images() {
			return d.refuse(path+sep+"image", "image on scanner '%s' has no effect under runtime '%s'; it is read by the oci and kubernetes runtimes", name, c.Worker.Sandbox.Runtime)
		}
		if err := d.checkForCrun(c.Worker.Sandbox, s); err != nil {
			return err
		}
		c.addImage(d, path+sep+"image", name)
		c.Scanners[name] = s
	}
	return nil
}

func (d *document) decodeScanner(name string) (Scanner, error) {
	path := "scanners" + sep + name
	at := func(key string) string { return path + sep + key }
	file, line := d.origin(path)
	s := Scanner{
		Name: name, File: file, Line: line,
		Type: d.k.String(at("type")), Command: d.k.String(at("command")), Findings: d.k.String(at("findings")),
		Image: d.k.String(at("image")), SeccompProfile: d.k.String(at("seccomp_profile")), SeccompSHA256: d.k.String(at("seccomp_sha256")),
		Endpoint: d.k.String(at("endpoint")),
		Online:   d.k.Bool(at("online")), Timeline: !d.k.Exists(at("timeline")) || d.k.Bool(at("timeline")),
		Ecosystems: d.k.Strings(at("ecosystems")), AddressSpaceMB: d.k.Int64(at("address_space_mb")),
	}
	if d.k.Exists(at("args")) {
		s.Args = append([]string{}, d.k.Strings(at("args"))...)
	}
	if d.k.Exists(at("network")) {
		network := d.k.Bool(at("network"))
		s.Network = &network
	}
	if err := d.decodeTimeout(&s, at); err != nil {
		return s, err
	}
	if d.set(at("address_space_mb")) && s.AddressSpaceMB == 0 {
		return s, d.refuse(at("address_space_mb"), "address_space_mb is 0, want at least 1, or %d for no limit", wire.AddressSpaceOff)
	}
	if d.set(at("command")) && s.Command == "" {
		return s, d.refuse(at("command"), "the command of scanner '%s' is empty; name the scanner's program", name)
	}
	if err := d.checkArgv(s, at); err != nil {
		return s, err
	}
	return s, d.decodeLayout(&s, at("layout"))
}

func (d *document) decodeTimeout(s *Scanner, at func(string) string) error {
	if d.k.Exists(at("timeout")) && d.k.Exists(at("timeout_secs")) {
		return d.refuse(at("timeout_secs"), "both timeout and timeout_secs are set on scanner '%s'; keep timeout", s.Name)
	}
	for _, key := range []string{"timeout", "timeout_secs"} {
		if value := d.k.Get(at(key)); value != nil {
			parsed, err := parseDuration(value)
			if err != nil {
				return d.refuse(at(key), "%s: %v", dotted(at(key)), err)
			}
			s.Timeout = parsed
		}
	}
	return nil
}

func (d *document) decodeLayout(s *Scanner, path string) error {
	switch value := d.k.Get(path).(type) {
	case nil:
		return nil
	case string:
		s.Layout = &Layout{Kind: value}
	case map[string]any:
		kind, _ := value["kind"].(string)
		where, _ := value["path"].(string)
		s.Layout = &Layout{Kind: kind, Path: where, Files: map[string]string{}}
		if kind == "" {
			s.Layout.Kind = "archive"
		}
		if err := d.decodeLayoutTable(s.Layout, path, value); err != nil {
			return err
		}
	}
	return d.validateLayout(s, path)
}

func (d *document) decodeLayoutTable(l *Layout, path string, value map[string]any) error {
	files, _ := value["files"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text, is := files[name].(string)
		if !is {
			return d.refuse(path, "layout.files %.64q is %s, want its content as a string", name, describe(files[name]))
		}
		l.Files[name] = text
	}
	nested, is := value["nested"].([]any)
	if is {
		l.Nested = []Nested{}
	}
	for _, entry := range nested {
		table, _ := entry.(map[string]any)
		member, isMember := table["member"].(string)
		into, isInto := table["into"].(string)
		if !isMember || !isInto || len(table) != 2 {
			return d.refuse(path, "layout.nested has an entry that is not { member = \"…\", into = \"…\" }")
		}
		l.Nested = append(l.Nested, Nested{Member: member, Into: into})
	}
	return nil
}

func (d *document) validateLayout(s *Scanner, path string) error {
	l := s.Layout
	if l.Kind != "archive" && l.Kind != "file" && l.Kind != "none" {
		return d.refuse(path, "layout %.32q of scanner '%s' is not known; one of archive, file, none", l.Kind, s.Name)
	}
	places := map[string]string{"path": l.Path}
	for name := range l.Files {
		places["files "+name] = name
	}
	for _, n := range l.Nested {
		places["nested "+n.Member] = n.Into
	}
	for what, place := range places {
		if place == "" && what == "path" {
			continue
		}
		p, err := wire.ParseRelPath(place)
		first, _, _ := strings.Cut(p.String(), "/")
		if err == nil && slices.Contains(wire.Reserved, first) && !strings.HasPrefix(what, "nested ") {
			err = fmt.Errorf("%q is reserved", first)
		}
		if err != nil {
			return d.refuse(path, "layout %s of scanner '%s': %v", what, s.Name, err)
		}
	}
	return nil
}
