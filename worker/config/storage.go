package config

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Storage is [storage].
type Storage struct {
	// Default is the name of the backend that is meant where none is named.
	Default  string
	Backends map[string]Backend
}

// Backend is [storage.backends.<name>].
type Backend struct {
	Name         string
	Type         string
	Endpoint     string
	Region       string
	Bucket       string
	AccessKey    Secret
	SecretKey    Secret
	AccessKeyEnv string
	SecretKeyEnv string
	PathStyle    bool
	CAFile       string
	Path         string
	// File and Line are where it begins, for messages.
	File string
	Line int
}

// Backends are the types of a backend, in the order in which messages list
// them.
var Backends = []string{"s3", "filesystem", "in_memory"}

// BundleBackend is the backend that bundles travel through: the named one, or
// the default.
func (c *Config) BundleBackend() (Backend, bool) {
	name := c.Worker.Sandbox.BundleBackend
	if name == "" {
		name = c.Storage.Default
	}
	b, ok := c.Storage.Backends[name]
	return b, ok
}

func (d *document) decodeStorage(c *Config) error {
	c.Storage = Storage{Default: d.k.String("storage" + sep + "default"), Backends: map[string]Backend{}}
	for _, name := range d.k.MapKeys("storage" + sep + "backends") {
		c.Storage.Backends[name] = d.decodeBackend(name)
	}
	names := slices.Sorted(maps.Keys(c.Storage.Backends))
	if len(names) == 1 && c.Storage.Default == "" {
		c.Storage.Default = names[0]
	}
	if name := c.Storage.Default; name != "" && !slices.Contains(names, name) {
		return d.refuse("storage"+sep+"default", "the default backend '%s' is not declared in [storage]; %s", name, declared(names))
	}
	for _, name := range names {
		if d.registrys(name) {
			continue
		}
		if err := d.validateBackend(c.Worker.Sandbox, c.Storage.Backends[name]); err != nil {
			return err
		}
	}
	return d.validateBundles(c, names)
}

// registrys says that a backend was declared in the registry's own way alone.
// What is in it is the registry's business until it is used here.
func (d *document) registrys(name string) bool {
	path := "storage" + sep + "backends" + sep + name
	for _, l := range d.layers {
		if _, has := l.lines[path]; has && !l.registrys[name] {
			return false
		}
	}
	return true
}

func (d *document) decodeBackend(name string) Backend {
	path := "storage" + sep + "backends" + sep + name
	text := func(key string) string { return d.k.String(path + sep + key) }
	b := Backend{
		Name: name, Type: text("type"), Endpoint: text("endpoint"), Region: text("region"), Bucket: text("bucket"),
		AccessKey: Secret(text("access_key")), SecretKey: Secret(text("secret_key")),
		AccessKeyEnv: text("access_key_env"), SecretKeyEnv: text("secret_key_env"),
		PathStyle: d.k.Bool(path + sep + "path_style"), CAFile: text("ca_file"), Path: text("path"),
	}
	if b.Region == "" {
		b.Region, _ = index[tableBackend+".region"].defaultValue().(string)
	}
	b.File, b.Line = d.origin(path)
	return b
}

// validateBackend refuses what can't be a backend. What no bundle goes through is
// not opened here, and neither is its certificate. No message has a value of a
// secret, and so none has one of a key beside it.
func (d *document) validateBackend(s Sandbox, b Backend) error {
	at := func(key string) string { return "storage" + sep + "backends" + sep + b.Name + sep + key }
	switch {
	case b.Type == "":
		return d.refuse(strings.TrimSuffix(at(""), sep), "backend '%s' has no type; set [storage.backends.%s] type to one of %s", b.Name, b.Name, strings.Join(Backends, ", "))
	case !slices.Contains(Backends, b.Type):
		return d.refuse(at("type"), "type %.32q of backend '%s' is not known; one of %s", b.Type, b.Name, strings.Join(Backends, ", "))
	case b.Type == "filesystem" && b.Path == "":
		return d.refuse(at("type"), "backend '%s' has no path; set [storage.backends.%s] path to its directory", b.Name, b.Name)
	case b.Type != "s3":
		return nil
	case b.Bucket == "":
		return d.refuse(at("type"), "backend '%s' has no bucket; set [storage.backends.%s] bucket", b.Name, b.Name)
	}
	if s.StorageHop() {
		if err := d.checkPlace(at("ca_file"), b.CAFile); err != nil {
			return err
		}
	}
	if fault := endpointFault(b.Endpoint); fault != "" {
		return d.refuse(at("endpoint"), "the endpoint of backend '%s' %s; want http://HOST[:PORT] or https://HOST[:PORT]", b.Name, fault)
	}
	if host, is := endpointAddr(b.Endpoint); is && !b.PathStyle {
		return d.refuse(at("endpoint"), "the endpoint of backend '%s' is the address %s, which no bucket's name can stand before; set path_style = true", b.Name, host)
	}
	return d.validateCredentials(b, at)
}

func (d *document) validateCredentials(b Backend, at func(string) string) error {
	for _, pair := range []struct{ inline, env string }{{"access_key", "access_key_env"}, {"secret_key", "secret_key_env"}} {
		if d.k.String(at(pair.inline)) != "" && d.k.String(at(pair.env)) != "" {
			return d.refuse(at(pair.env), "both %s and %s are set on backend '%s'; keep %s", pair.inline, pair.env, b.Name, pair.env)
		}
	}
	access, secret := b.AccessKey != "" || b.AccessKeyEnv != "", b.SecretKey != "" || b.SecretKeyEnv != ""
	if access != secret {
		have, want := "an access key", "secret_key or secret_key_env"
		if secret {
			have, want = "a secret key", "access_key or access_key_env"
		}
		return d.refuse(at("type"), "backend '%s' has %s alone; set %s as well", b.Name, have, want)
	}
	return nil
}

// endpointFault says what is wrong with an endpoint, without repeating it: a
// URL may have a password in it.
func endpointFault(endpoint string) string {
	if endpoint == "" {
		return ""
	}
	u, err := url.Parse(endpoint)
	switch {
	case err != nil:
		return "is no URL"
	case u.User != nil:
		return "has credentials in it"
	case u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		return "has no scheme or no host"
	case u.Path != "" && u.Path != "/", u.RawQuery != "", u.Fragment != "":
		return "has more than a host"
	case strings.Contains(u.Hostname(), "%"):
		return "names an interface of this host"
	case u.Port() != "" && !validPort(u.Port()):
		return "has a port that is none"
	}
	return ""
}

func validPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// endpointAddr is the address that an endpoint has for a host.
func endpointAddr(endpoint string) (netip.Addr, bool) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return netip.Addr{}, false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return ip, err == nil
}

// validateBundles refuses a bundle backend that is not there, or that the
// chosen runtime can't use.
func (d *document) validateBundles(c *Config, names []string) error {
	s, at := c.Worker.Sandbox, "worker"+sep+"sandbox"+sep
	if name := s.BundleBackend; name != "" && !slices.Contains(names, name) {
		return d.refuse(at+"bundle_backend", "bundle_backend '%s' is not declared in [storage]; %s", name, declared(names))
	}
	if !s.StorageHop() {
		return nil
	}
	b, found := c.BundleBackend()
	blame := at + "bundle_backend"
	switch {
	case s.BundleBackend != "":
	case s.Runtime == "kubernetes":
		blame = at + "runtime"
	default:
		blame = at + "oci" + sep + "transport"
	}
	switch {
	case !found && len(names) == 0:
		return d.refuse(blame, "the %s runtime moves bundles through the storage backend and [storage] declares none; add a [storage.backends.<name>] with an S3-compatible backend", s.Runtime)
	case !found:
		return d.refuse(blame, "the %s runtime moves bundles through the storage backend and [storage] has no default; set [storage] default or bundle_backend: %s", s.Runtime, declared(names))
	}
	if fault := presignFault(s.Runtime, b.Type); fault != "" {
		return d.refuse(blame, "%s", fault)
	}
	if err := d.validateBackend(s, b); err != nil {
		return err
	}
	return d.validateReach(s.Runtime, b)
}

// validateReach refuses a bundle backend that no sandbox reaches.
func (d *document) validateReach(runtime string, b Backend) error {
	at := func(key string) string { return "storage" + sep + "backends" + sep + b.Name + sep + key }
	ip, isAddr := endpointAddr(b.Endpoint)
	switch {
	case isLoopback(b.Endpoint):
		return d.refuse(at("endpoint"), "the endpoint of backend '%s' is a loopback address, which in a sandbox is the sandbox's own; want one that this host and a container both reach", b.Name)
	case isAddr && runtime == "oci" && !ip.Unmap().Is4():
		return d.refuse(at("endpoint"), "the endpoint of backend '%s' is an IPv6 address, and the networks of runs under runtime 'oci' are IPv4; name the server by its IPv4 address, or by a name that has one", b.Name)
	case !bucketForm.MatchString(b.Bucket):
		return d.refuse(at("bucket"), "bucket %.80q of backend '%s' is no bucket's name; want 3 to 63 of letters, digits, - _ . between letters or digits", b.Bucket, b.Name)
	}
	return nil
}

// bucketForm is what servers take, which is more than S3 has for new buckets.
var bucketForm = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._-]{1,61}[0-9A-Za-z]$`)

// isLoopback tells an endpoint that every host has to itself.
func isLoopback(endpoint string) bool {
	if ip, is := endpointAddr(endpoint); is {
		return ip.Unmap().IsLoopback() || ip.IsUnspecified()
	}
	u, err := url.Parse(endpoint)
	return err == nil && strings.EqualFold(strings.TrimSuffix(u.Hostname(), "."), "localhost")
}

// presignFault says why a runtime can't move its bundles through a backend of
// that type.
func presignFault(runtime, kind string) string {
	if kind != "filesystem" && kind != "in_memory" {
		return ""
	}
	return fmt.Sprintf("the %s runtime moves bundles through the storage backend and '%s' cannot presign a URL; configure an S3-compatible backend, or name one in bundle_backend", runtime, kind)
}

func declared(names []string) string {
	if len(names) == 0 {
		return "it declares no backend"
	}
	return "it declares " + strings.Join(names, ", ")
}

func (l *layer) checkBackend(path, name string, value any) error {
	values, is := value.(map[string]any)
	if !is {
		return l.refuse(path, "%s is %s, want a table [storage.backends.<name>] with at least a type", dotted(path), describe(value))
	}
	if !validBackendName(name) {
		return l.refuse(path, "backend name %.64q, want 1 to 63 of letters, digits, - _ .", name)
	}
	return l.checkTable(path, tableBackend, values)
}

func validBackendName(s string) bool { return validScannerName(strings.ToLower(s)) }
