package config

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

// ociRefusals are the rules of the image runtimes and of their storage, each
// with the whole message behind "config.toml".
var ociRefusals = []refusal{
	{"an unknown engine", "[worker.sandbox.oci]\nengine = \"nerdctl\"", `:2: engine "nerdctl" is not known; one of podman, docker`},
	{"an unknown transport", "[worker.sandbox.oci]\ntransport = \"ftp\"", `:2: transport "ftp" is not known; one of mount, storage`},
	{"an unknown pull policy", "[worker.sandbox.oci]\npull = \"always\"", `:2: pull "always" is not known; one of never, if-absent`},
	{"another engine's program", "[worker.sandbox.oci]\nbinary = \"/usr/bin/docker\"", `:2: worker.sandbox.oci.binary = "/usr/bin/docker" is the program of something else; want podman, or leave the key out`},
	{"another engine than the program's", "[worker.sandbox.oci]\nengine = \"docker\"\nbinary = \"podman-remote\"", `:3: worker.sandbox.oci.binary = "podman-remote" is the program of something else; want docker, or leave the key out`},
	{"a program below the engines", "[worker.sandbox.oci]\nbinary = \"crun\"", `:2: worker.sandbox.oci.binary = "crun" is the program of something else; want podman, or leave the key out`},
	{"an engine for bwrap", "[worker.sandbox.bwrap]\nbinary = \"podman\"", `:2: worker.sandbox.bwrap.binary = "podman" is the program of something else; want bwrap, or leave the key out`},
	{"an engine for crun", "[worker.sandbox.crun]\nprogram = \"/usr/bin/podman\"", `:2: worker.sandbox.crun.program = "/usr/bin/podman" is the program of something else; want crun, runc, runsc, or leave the key out`},
	{"an empty engine program", "[worker.sandbox.oci]\nbinary = \"\"", `:2: worker.sandbox.oci.binary is empty; leave the key out for the engine's own name`},
	{"the host's network", "[worker.sandbox.oci]\nnetwork = \"host\"", `:2: network "host" would put a scanner beside what it must not reach; name a network of the engine's, or leave the key out for its default`},
	{"another container's network", "[worker.sandbox.oci]\nnetwork = \"container:db\"", `:2: network "container:db" would put a scanner beside what it must not reach; name a network of the engine's, or leave the key out for its default`},
	{"no network for those that need one", "[worker.sandbox.oci]\nnetwork = \"none\"", `:2: network "none" would leave scanners that need a network without one; name a network of the engine's, or leave the key out for its default`},
	{"a flag for a network", "[worker.sandbox.oci]\nnetwork = \"--privileged\"", `:2: network "--privileged" is no network's name; name a network of the engine's, or leave the key out for its default`},
	{"a pool that is none", "[worker.sandbox.oci]\nstorage_pool = \"10.0.0.0\"", `:2: storage_pool "10.0.0.0" is no network; want a private IPv4 network of /8 to /26, such as "10.213.0.0/16"`},
	{"a pool of IPv6", "[worker.sandbox.oci]\nstorage_pool = \"fd00::/64\"", `:2: storage_pool "fd00::/64" is not IPv4; want a private IPv4 network of /8 to /26, such as "10.213.0.0/16"`},
	{"a pool with host bits", "[worker.sandbox.oci]\nstorage_pool = \"10.213.1.0/16\"", `:2: storage_pool "10.213.1.0/16" has address bits behind its mask (10.213.0.0/16 has none); want a private IPv4 network of /8 to /26, such as "10.213.0.0/16"`},
	{"a pool for one run", "[worker.sandbox.oci]\nstorage_pool = \"10.213.0.0/29\"", `:2: storage_pool "10.213.0.0/29" is a /29; want a private IPv4 network of /8 to /26, such as "10.213.0.0/16"`},
	{"a public pool", "[worker.sandbox.oci]\nstorage_pool = \"8.8.0.0/16\"", `:2: storage_pool "8.8.0.0/16" is not private; want a private IPv4 network of /8 to /26, such as "10.213.0.0/16"`},
	{"a pool of egress that is none", "[worker.sandbox.oci]\negress_pool = \"10.214.0.0\"", `:2: egress_pool "10.214.0.0" is no network; want a private IPv4 network of /8 to /26, such as "10.214.0.0/16"`},
	{"a pool of egress over the storage's", "[worker.sandbox.oci]\negress_pool = \"10.0.0.0/8\"", `:2: egress_pool 10.0.0.0/8 overlaps storage_pool 10.213.0.0/16`},
	{"a pool of egress and a network", "[worker.sandbox.oci]\nnetwork = \"scans\"\negress_pool = \"10.214.0.0/16\"", `:3: egress_pool and network: a run with network joins one or the other; leave one of them out`},
	{"what is allowed to nobody", "[worker.sandbox.oci]\negress_allow = [\"192.0.2.1:443\"]", `:2: egress_allow has no effect without egress_pool, out of which runs with network get networks that it bounds`},
	{"a name that is allowed", "[worker.sandbox.oci]\negress_pool = \"10.214.0.0/16\"\negress_allow = [\"192.0.2.1\", \"example.com:443\"]", `:3: egress_allow "example.com:443" is not IP[/BITS][:PORT] of IPv4, as in 192.0.2.0/24:443`},
	{"an allowed network with host bits", "[worker.sandbox.oci]\negress_pool = \"10.214.0.0/16\"\negress_allow = [\"192.0.2.1\", \"10.0.0.5/24\"]", `:3: egress_allow "10.0.0.5/24" has address bits behind its mask; want 10.0.0.0/24, or 10.0.0.5 for that address alone`},
	{"an allowed network with host bits and a port", "[worker.sandbox.oci]\negress_pool = \"10.214.0.0/16\"\negress_allow = [\"10.0.0.5/8:443\"]", `:3: egress_allow "10.0.0.5/8:443" has address bits behind its mask; want 10.0.0.0/8:443, or 10.0.0.5:443 for that address alone`},
	{"an orphan's age of nothing", "[worker.sandbox.oci]\norphan_after_secs = 0", `:2: worker.sandbox.oci.orphan_after_secs is 0, want 1 to 2592000`},

	{"as much unpacked as there is memory", ociTable + "max_extracted_mb = 2048", `:3: max_extracted_mb is 2048 and memory_limit_mb 2048: under runtime 'oci' /work is memory and charged to the same limit, so a scanner would have none left; want less than memory_limit_mb`},
	{"more unpacked than there is memory", ociTable + "memory_limit_mb = 256", `:3: max_extracted_mb is 512 and memory_limit_mb 256: under runtime 'oci' /work is memory and charged to the same limit, so a scanner would have none left; want less than memory_limit_mb`},

	{"storage that is not there", ociTable + "[worker.sandbox.oci]\ntransport = \"storage\"", `:4: the oci runtime moves bundles through the storage backend and [storage] declares none; add a [storage.backends.<name>] with an S3-compatible backend`},
	{"a directory for bundles", ociTable + "[worker.sandbox.oci]\ntransport = \"storage\"\n" + fsBackend, `:4: the oci runtime moves bundles through the storage backend and 'filesystem' cannot presign a URL; configure an S3-compatible backend, or name one in bundle_backend`},
	{"memory for bundles", ociTable + "[worker.sandbox.oci]\ntransport = \"storage\"\n[storage.backends.m]\ntype = \"in_memory\"", `:4: the oci runtime moves bundles through the storage backend and 'in_memory' cannot presign a URL; configure an S3-compatible backend, or name one in bundle_backend`},
	{"a directory named for bundles", ociTable + "bundle_backend = \"disk\"\n[worker.sandbox.oci]\ntransport = \"storage\"\n[storage]\ndefault = \"s3\"\n" + fsBackend + s3Backend, `:3: the oci runtime moves bundles through the storage backend and 'filesystem' cannot presign a URL; configure an S3-compatible backend, or name one in bundle_backend`},
	{"no default among two", ociTable + "[worker.sandbox.oci]\ntransport = \"storage\"\n" + fsBackend + s3Backend, `:4: the oci runtime moves bundles through the storage backend and [storage] has no default; set [storage] default or bundle_backend: it declares disk, s3`},
	{"a loopback endpoint", ociTable + "[worker.sandbox.oci]\ntransport = \"storage\"\n[storage.backends.x]\ntype = \"s3\"\nbucket = \"b\"\nendpoint = \"http://localhost:9000\"", `:8: the endpoint of backend 'x' is a loopback address, which in a sandbox is the sandbox's own; want one that this host and a container both reach`},
	{"an IPv6 address", ociTable + "[worker.sandbox.oci]\ntransport = \"storage\"\n[storage.backends.x]\ntype = \"s3\"\nbucket = \"cache\"\npath_style = true\nendpoint = \"http://[2001:db8::1]:9000\"", `:9: the endpoint of backend 'x' is an IPv6 address, and the networks of runs under runtime 'oci' are IPv4; name the server by its IPv4 address, or by a name that has one`},
	{"an IPv6 loopback endpoint", ociTable + "[worker.sandbox.oci]\ntransport = \"storage\"\n[storage.backends.x]\ntype = \"s3\"\nbucket = \"cache\"\npath_style = true\nendpoint = \"http://[::ffff:127.0.0.1]:9000\"", `:9: the endpoint of backend 'x' is a loopback address, which in a sandbox is the sandbox's own; want one that this host and a container both reach`},
	{"a loopback name in full", ociTable + "[worker.sandbox.oci]\ntransport = \"storage\"\n[storage.backends.x]\ntype = \"s3\"\nbucket = \"cache\"\nendpoint = \"http://Localhost.:9000\"", `:8: the endpoint of backend 'x' is a loopback address, which in a sandbox is the sandbox's own; want one that this host and a container both reach`},
	{"a bucket's name that is none", ociTable + "[worker.sandbox.oci]\ntransport = \"storage\"\n[storage.backends.x]\ntype = \"s3\"\nbucket = \"my bucket\"\nendpoint = \"http://minio:9000\"", `:7: bucket "my bucket" of backend 'x' is no bucket's name; want 3 to 63 of letters, digits, - _ . between letters or digits`},
	{"an undeclared bundle backend", "[worker.sandbox]\nbundle_backend = \"minio\"\n" + fsBackend + s3Backend, `:2: bundle_backend 'minio' is not declared in [storage]; it declares disk, s3`},
	{"a bundle backend without storage", "[worker.sandbox]\nbundle_backend = \"minio\"", `:2: bundle_backend 'minio' is not declared in [storage]; it declares no backend`},
	{"an undeclared default", "[storage]\ndefault = \"minio\"\n" + s3Backend, `:2: the default backend 'minio' is not declared in [storage]; it declares s3`},

	{"a backend of no type", "[storage.backends.x]\nbucket = \"b\"", `:1: backend 'x' has no type; set [storage.backends.x] type to one of s3, filesystem, in_memory`},
	{"a backend of an unknown type", "[storage.backends.x]\ntype = \"gcs\"", `:2: type "gcs" of backend 'x' is not known; one of s3, filesystem, in_memory`},
	{"a directory without a path", "[storage.backends.x]\ntype = \"filesystem\"", `:2: backend 'x' has no path; set [storage.backends.x] path to its directory`},
	{"S3 without a bucket", "[storage.backends.x]\ntype = \"s3\"", `:2: backend 'x' has no bucket; set [storage.backends.x] bucket`},
	{"an endpoint without a scheme", "[storage.backends.x]\ntype = \"s3\"\nbucket = \"b\"\nendpoint = \"minio:9000\"", `:4: the endpoint of backend 'x' has no scheme or no host; want http://HOST[:PORT] or https://HOST[:PORT]`},
	{"an address without path_style", "[storage.backends.x]\ntype = \"s3\"\nbucket = \"b\"\nendpoint = \"http://192.0.2.1:9000\"", `:4: the endpoint of backend 'x' is the address 192.0.2.1, which no bucket's name can stand before; set path_style = true`},
	{"an IPv6 address without path_style", "[storage.backends.x]\ntype = \"s3\"\nbucket = \"b\"\nendpoint = \"https://[2001:db8::1]\"", `:4: the endpoint of backend 'x' is the address 2001:db8::1, which no bucket's name can stand before; set path_style = true`},
	{"an IPv6 address without brackets", "[storage.backends.x]\ntype = \"s3\"\nbucket = \"b\"\nendpoint = \"http://2001:db8::1\"", `:4: the endpoint of backend 'x' is no URL; want http://HOST[:PORT] or https://HOST[:PORT]`},
	{"an endpoint on an interface", "[storage.backends.x]\ntype = \"s3\"\nbucket = \"b\"\nendpoint = \"http://[fe80::1%25eth0]:9000\"", `:4: the endpoint of backend 'x' names an interface of this host; want http://HOST[:PORT] or https://HOST[:PORT]`},
	{"an endpoint with a port that is none", "[storage.backends.x]\ntype = \"s3\"\nbucket = \"b\"\nendpoint = \"http://minio:99999\"", `:4: the endpoint of backend 'x' has a port that is none; want http://HOST[:PORT] or https://HOST[:PORT]`},
	{"a path style in words", "[storage.backends.x]\ntype = \"s3\"\nbucket = \"b\"\npath_style = \"true\"", `:4: storage.backends.x.path_style is the string "true", want a boolean`},
	{"an endpoint with a path", "[storage.backends.x]\ntype = \"s3\"\nbucket = \"b\"\nendpoint = \"http://minio:9000/b\"", `:4: the endpoint of backend 'x' has more than a host; want http://HOST[:PORT] or https://HOST[:PORT]`},
	{"an access key alone", "[storage.backends.x]\ntype = \"s3\"\nbucket = \"b\"\naccess_key = \"SECRETWORD\"", `:2: backend 'x' has an access key alone; set secret_key or secret_key_env as well`},
	{"a secret key alone", "[storage.backends.x]\ntype = \"s3\"\nbucket = \"b\"\nsecret_key_env = \"S\"", `:2: backend 'x' has a secret key alone; set access_key or access_key_env as well`},
	{"two secret keys", "[storage.backends.x]\ntype = \"s3\"\nbucket = \"b\"\naccess_key = \"a\"\nsecret_key = \"SECRETWORD\"\nsecret_key_env = \"S\"", `:6: both secret_key and secret_key_env are set on backend 'x'; keep secret_key_env`},
	{"a backend's key with a slip", "[storage.backends.x]\ntype = \"s3\"\nbuckets = \"b\"", `:3: unknown key "buckets" in [storage.backends.x]; did you mean "bucket"?`},
	{"the registry's name of a key", "[storage.backends.x]\ntype = \"s3\"\nendpoint_url = \"b\"", `:3: unknown key "endpoint_url" in [storage.backends.x]; did you mean "endpoint"?`},
	{"a backend that is no table", "[storage.backends]\nx = \"s3\"", `:2: storage.backends.x is the string "s3", want a table [storage.backends.<name>] with at least a type`},
	{"a backend's name", "[storage.backends.\"a/b\"]\ntype = \"s3\"", `:1: backend name "a/b", want 1 to 63 of letters, digits, - _ .`},
	{"a key of storage with a slip", "[storage]\ndefalt = \"x\"", `:2: unknown key "defalt" in [storage]; did you mean "default"?`},
}

const (
	ociTable  = "[worker.sandbox]\nruntime = \"oci\"\n"
	fsBackend = "[storage.backends.disk]\ntype = \"filesystem\"\npath = \"/srv\"\n"
	s3Backend = "[storage.backends.s3]\ntype = \"s3\"\nendpoint = \"http://192.0.2.1:9000\"\npath_style = true\nbucket = \"bundles\"\naccess_key = \"ACCESSWORD\"\nsecret_key = \"SECRETWORD\"\n"
)

func TestEachRuleOfTheImageRuntimesIsOneLine(t *testing.T) { checkRefusals(t, ociRefusals) }

func TestABackendThatCantPresignIsNamedForEachRuntimeThatNeedsIt(t *testing.T) {
	for _, runtime := range imageRuntimes {
		for _, kind := range []string{"filesystem", "in_memory"} {
			want := "the " + runtime + " runtime moves bundles through the storage backend and '" + kind +
				"' cannot presign a URL; configure an S3-compatible backend, or name one in bundle_backend"
			if got := presignFault(runtime, kind); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
		if got := presignFault(runtime, "s3"); got != "" {
			t.Error(got)
		}
	}
}

func TestMountNeedsNoStorageAndMemoryIsComparedOnImageRuntimesAlone(t *testing.T) {
	for _, text := range []string{
		ociTable + fsBackend,
		ociTable,
		ociTable + "max_extracted_mb = 2047\n",
		"[worker.sandbox]\nmax_extracted_mb = 2048\n",
		"[worker.sandbox]\nruntime = \"none\"\nmemory_limit_mb = 64\n",
		"[worker.sandbox.oci]\ntransport = \"storage\"\n",
		"[storage.backends.x]\ntype = \"s3\"\nbucket = \"b\"\nendpoint = \"http://localhost:9000\"\n",
	} {
		load(t, text)
	}
}

func TestAPoolOfEgressIsReadWithWhatItReaches(t *testing.T) {
	o := load(t, "[worker.sandbox.oci]\negress_pool = \"10.214.0.0/16\"\negress_allow = [\"192.0.2.53:53\", \"198.51.100.0/24\"]\n").Worker.Sandbox.OCI
	if o.EgressPool != netip.MustParsePrefix("10.214.0.0/16") || !slices.Equal(o.EgressAllow, []string{"192.0.2.53:53", "198.51.100.0/24"}) {
		t.Errorf("%+v", o)
	}
}

func TestTheOciTableIsReadWithItsImages(t *testing.T) {
	c := load(t, ociTable+`
bundle_backend = "s3"
[worker.sandbox.oci]
engine = "docker"
image = "registry.example/room@sha256:0"
transport = "storage"
extra_args = ["--runtime=runsc"]
pull = "never"
network = "scans"
storage_pool = "10.1.0.0/24"
orphan_after_secs = 60
[scanners.gitleaks]
image = "registry.example/gitleaks@sha256:1"
[storage]
default = "disk"
`+fsBackend+s3Backend)
	o := c.Worker.Sandbox.OCI
	if o.Engine != "docker" || o.Binary != "docker" || o.Image != "registry.example/room@sha256:0" || o.Transport != "storage" ||
		!slices.Equal(o.ExtraArgs, []string{"--runtime=runsc"}) || o.Pull != "never" || o.Network != "scans" ||
		o.StoragePool != netip.MustParsePrefix("10.1.0.0/24") || c.Worker.Sandbox.OrphanAfter() != time.Minute {
		t.Errorf("%+v", o)
	}
	if c.Scanners["gitleaks"].Image == "" || !c.Worker.Sandbox.Images() || !c.Worker.Sandbox.StorageHop() || len(c.Warnings) != 0 {
		t.Errorf("%+v %v", c.Scanners["gitleaks"], c.Warnings)
	}
	if b, ok := c.BundleBackend(); !ok || b.Name != "s3" || b.Region != "us-east-1" {
		t.Errorf("the bundle backend is %+v", b)
	}
	if c := load(t, "[worker.sandbox.oci]\nengine = \"docker\"\nbinary = \"/opt/docker\"\n"); c.Worker.Sandbox.OCI.Binary != "/opt/docker" {
		t.Errorf("%+v", c.Worker.Sandbox.OCI)
	}
}
