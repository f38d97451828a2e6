package config

import "fmt"

// Type is what a key's value must be.
type Type string

// The types of keys.
const (
	String   Type = "string"
	Integer  Type = "integer"
	Boolean  Type = "boolean"
	Strings  Type = "array of strings"
	Table    Type = "table"
	Tables   Type = "array of tables"
	Duration Type = "duration"
	// Layout is a string or a table, see Scanner.Layout.
	LayoutValue Type = "string or table"
	// SecretString is a string whose value is never printed.
	SecretString Type = "secret string"
)

// Key documents one key.
type Key struct {
	// Table is the table that the key is in, "<name>" standing for any name.
	Table string
	// Name is the key.
	Name string
	// Type is what its value must be.
	Type Type
	// Default is the value of a configuration that says nothing, as it would
	// be written in TOML; empty where a scanner's type decides.
	Default string
	// Min and Max bound an integer; Max 0 is no bound.
	Min, Max int64
	// Doc says what the key does, in one sentence.
	Doc string
}

// Path is the key with its table.
func (k Key) Path() string {
	if k.Table == "" {
		return k.Name
	}
	return k.Table + "." + k.Name
}

const (
	tableWorker     = "worker"
	tableSandbox    = "worker.sandbox"
	tableBwrap      = "worker.sandbox.bwrap"
	tableOCI        = "worker.sandbox.oci"
	tableKubernetes = "worker.sandbox.kubernetes"
	tableCrun       = "worker.sandbox.crun"
	tableScanner    = "scanners.<name>"
	tableLayout     = "scanners.<name>.layout"
	tableStorage    = "storage"
	tableBackends   = "storage.backends"
	tableBackend    = "storage.backends.<name>"
)

const day = 24 * 60 * 60

// Keys lists every key with its default, table by table.
func Keys() []Key { return append([]Key(nil), keys...) }

var keys = []Key{
	{tableWorker, "max_concurrent", Integer, "4", 1, 4096, "Jobs that a worker holds at a time. Read by the queue worker only."},
	{tableWorker, "registries", Strings, "[]", 0, 0, "Registries whose jobs a worker takes; empty means all. Read by the queue worker only."},
	{tableWorker, "job_timeout_secs", Integer, "600", 1, day, "Seconds after which a job goes back to the queue. Read by the queue worker only."},
	{tableWorker, "max_attempts", Integer, "3", 1, 1000, "Attempts at one job. Read by the queue worker only."},

	{tableSandbox, "runtime", String, `"bwrap"`, 0, 0, "Where a scanner runs: `none`, `bwrap`, `oci`, `kubernetes` or `crun`."},
	{tableSandbox, "memory_limit_mb", Integer, "2048", 16, 1 << 30, "Memory of one run in MiB: `RLIMIT_AS` of the scanner everywhere, and the container's limit on `oci`, `kubernetes` and `crun`."},
	{tableSandbox, "cpu_seconds", Integer, "300", 1, day, "`RLIMIT_CPU` of the scanner in seconds of CPU time."},
	{tableSandbox, "max_artifact_mb", Integer, "2048", 1, 1 << 30, "Size in MiB above which an artifact is not scanned: it is refused before a byte of it is copied, as a scan without an answer."},
	{tableSandbox, "max_extracted_mb", Integer, "512", 1, 1 << 30, "MiB that the artifact may unpack to, checked by the agent inside the sandbox; on `oci`, `kubernetes` and `crun` also the size of `/work`, which is memory."},
	{tableSandbox, "max_entries", Integer, "50000", 1, 100_000_000, "Entries that the artifact's archives may have, checked by the agent inside the sandbox."},
	{tableSandbox, "start_timeout_secs", Integer, "120", 1, day, "Seconds a sandbox may take until its agent has fetched the bundle. The run's deadline is this plus the scanner's own `timeout`."},
	{tableSandbox, "probe_interval_secs", Integer, "600", 1, day, "Seconds between two probes of a running worker. There is no value that switches the probe off."},
	{tableSandbox, "bundle_backend", String, `""`, 0, 0, "Storage backend that holds the bundles of image runtimes; empty means the default backend of `[storage]`."},
	{tableSandbox, "bundle_prefix", String, `"sandbox/"`, 0, 0, "Prefix of the bundles' keys: one path segment with a trailing `/`."},
	{tableSandbox, "bundle_ttl_secs", Integer, "60", 1, day, "Seconds that a presigned URL outlives the run's deadline."},
	{tableSandbox, "run_dir", String, `""`, 0, 0, "Directory in which each run gets a directory of its own; empty means the system's temporary directory."},

	{tableBwrap, "binary", String, `"bwrap"`, 0, 0, "The bwrap program: a path, or a name looked up on `PATH`."},
	{tableBwrap, "rooms", String, `"/opt/sandbox"`, 0, 0, "Directory with one tree per scanner, named after it."},

	{tableOCI, "engine", String, `"podman"`, 0, 0, "The engine: `podman` or `docker`."},
	{tableOCI, "binary", String, `"podman"`, 0, 0, "The engine's command line, a path or a name looked up on `PATH`; left out, it is the engine's own name. The engine's socket is never used directly."},
	{tableOCI, "image", String, `""`, 0, 0, "The image of scanners that name none; empty means the worker's own, read from `BATLEHUB_IMAGE`."},
	{tableOCI, "transport", String, `"mount"`, 0, 0, "How bundles travel: `mount`, a directory of this host, or `storage`, presigned URLs of the bundle backend."},
	{tableOCI, "extra_args", Strings, "[]", 0, 0, "Flags of the engine's `run`, appended word for word, such as `--runtime=runsc`."},
	{tableOCI, "pull", String, `"if-absent"`, 0, 0, "Whether an image that is not there is pulled: `never` or `if-absent`. Pulling counts against `start_timeout_secs`."},
	{tableOCI, "network", String, `""`, 0, 0, "The engine's network for runs with network; empty means the engine's default."},
	{tableOCI, "storage_pool", String, `"10.213.0.0/16"`, 0, 0, "IPv4 addresses for the networks of runs without network under transport `storage`; each run takes eight of them."},
	{tableOCI, "egress_pool", String, `""`, 0, 0, "IPv4 addresses for the networks of runs with network, each of which then gets one of its own that the host's firewall holds to `egress_allow`; empty means that they join `network`."},
	{tableOCI, "egress_allow", Strings, "[]", 0, 0, "What runs with network may reach through `egress_pool` besides the storage, as `IP[/BITS][:PORT]`, TCP and UDP; their resolver too. A network never means this host's own or a link-local address, which are named one by one."},
	{tableOCI, "orphan_after_secs", Integer, "900", 1, 30 * day, "Seconds past its deadline after which a container, a network or a bundle is swept, whoever made it."},

	{tableKubernetes, "namespace", String, `""`, 0, 0, "Namespace of the pods; empty means the worker's own."},
	{tableKubernetes, "service_account", String, `"batlehub-sandbox"`, 0, 0, "Service account of the pods, which needs no role and whose token they don't get."},
	{tableKubernetes, "image", String, `""`, 0, 0, "The image of scanners that name none; empty means the worker's own, read from `BATLEHUB_IMAGE`."},
	{tableKubernetes, "runtime_class", String, `""`, 0, 0, "Runtime class of the pods, such as `gvisor`; empty means the cluster's default."},
	{tableKubernetes, "own_kernel", Boolean, "false", 0, 0, "That `runtime_class` is one of gVisor's, whose sandboxes have a kernel of their own and no `nodev`: the probe then asks for what holds there instead."},
	{tableKubernetes, "node_selector", Table, "{}", 0, 0, "Labels that a pod's node must have; names with dots in them are quoted."},
	{tableKubernetes, "tolerations", Tables, "[]", 0, 0, "Taints that a pod's node may have, each as in a pod's spec: `{ key = \"…\", operator = \"Exists\", effect = \"NoSchedule\" }`."},
	{tableKubernetes, "affinity", Table, "{}", 0, 0, "Affinity of the pods, as in a pod's spec: `nodeAffinity`, `podAffinity`, `podAntiAffinity`."},
	{tableKubernetes, "priority_class", String, `""`, 0, 0, "Priority class of the pods; empty means the cluster's default."},
	{tableKubernetes, "image_pull_secrets", Strings, "[]", 0, 0, "Names of pull secrets in the namespace of the pods."},
	{tableKubernetes, "annotations", Table, "{}", 0, 0, "Annotations of the pods."},
	{tableKubernetes, "kubeconfig", String, `""`, 0, 0, "File that says where the cluster is, for a worker outside of it; empty means the cluster and the service account of the worker's pod."},
	{tableKubernetes, "orphan_after_secs", Integer, "900", 1, 30 * day, "Seconds past its deadline after which a pod or a bundle is swept, whoever made it."},

	{tableCrun, "program", String, `"crun"`, 0, 0, "The runtime program: `crun`, `runc` or `runsc`, as a path or a name looked up on `PATH`. It is asked which of them it is."},
	{tableCrun, "state_dir", String, `"/var/lib/batlehub-sandbox/crun"`, 0, 0, "Directory of the worker's own for the runs' bundles and the program's state. It is made if it is missing, but nothing above it is."},
	{tableCrun, "rooms", String, `"/opt/sandbox"`, 0, 0, "Directory with one tree per scanner, named after it."},
	{tableCrun, "digests", Table, "{}", 0, 0, "Pinned digests of rooms, `scanner = \"sha256:…\"`; a name that is a scanner's but for a slip is refused, and one that is no scanner's is a warning: it holds for `run --room` alone. A room that is not here has its digest in the file `<room>.digest` beside it."},
	{tableCrun, "userns_base", Integer, "100000", -1 << 62, 0, "This host's id of a sandbox's id 0; with it go the 65535 ids after it, which nobody may have."},
	{tableCrun, "user", String, `"65532:65532"`, 0, 0, "Whom the agent runs as inside: `uid:gid`, or one number for both. 0 is refused."},
	{tableCrun, "cgroup_parent", String, `"batlehub-sandbox"`, 0, 0, "Cgroup below which each run has its own, from the hierarchy's root."},
	{tableCrun, "cpu_milli", Integer, "1000", 10, 1 << 20, "CPUs that a run may use at once, in thousandths of one; 10 at least, which is the least that the kernel takes."},
	{tableCrun, "no_pivot", Boolean, "false", 0, 0, "Has the program not use `pivot_root`, for a host that runs from a root which it can't leave. A kernel's first file system is recognised without this."},
	{tableCrun, "orphan_after_secs", Integer, "900", 1, 30 * day, "Seconds past its deadline after which a container and its directory are swept, whoever made it."},

	{tableScanner, "type", String, "", 0, 0, "The predefined scanner this one builds on, or `command` for none; default: the table's own name where that is predefined."},
	{tableScanner, "command", String, "", 0, 0, "The scanner's program: a name looked up on the room's `PATH`, or an absolute path in the room."},
	{tableScanner, "args", Strings, "", 0, 0, "Its arguments, without a shell. `{artifact}`, `{work}`, `{name}`, `{version}` and `{ecosystem}` are filled in, and any other word in braces is refused."},
	{tableScanner, "layout", LayoutValue, "", 0, 0, "Where the artifact goes: `archive` (unpacked), `file` (as it is) or `none`; or a table, see below."},
	{tableScanner, "timeout", Duration, `"5m"`, 0, 0, "How long extraction and scanner may take together, as in `90s` or `5m`, or a number of seconds."},
	{tableScanner, "network", Boolean, "false", 0, 0, "Whether the scanner may reach the network."},
	{tableScanner, "findings", String, "", 0, 0, "How its output is read: `gitleaks`, `trivy`, `guarddog`, `postmortem`, `lines` or `status`."},
	{tableScanner, "image", String, `""`, 0, 0, "The scanner's image, for the image runtimes only."},
	{tableScanner, "seccomp_profile", String, `""`, 0, 0, "File with a seccomp profile of the scanner's own, absolute, for the crun runtime only; `sandboxctl record` writes one."},
	{tableScanner, "seccomp_sha256", String, `""`, 0, 0, "The digest that pins that file: `sha256:` and 64 hexadecimal digits."},
	{tableScanner, "address_space_mb", Integer, "", -1, 1 << 30, "`RLIMIT_AS` of this scanner in MiB instead of `memory_limit_mb`; -1 sets none."},
	{tableScanner, "endpoint", String, `""`, 0, 0, "trivy: the server that holds its database; empty means that each run downloads one."},
	{tableScanner, "online", Boolean, "false", 0, 0, "postmortem: the scan may ask code hosts about the package."},
	{tableScanner, "timeline", Boolean, "true", 0, 0, "postmortem: also read an npm package's release history, in a run of its own without the artifact."},
	{tableScanner, "ecosystems", Strings, "[]", 0, 0, "guarddog: the ecosystems it is used for; empty means all it knows."},
	{tableScanner, "timeout_secs", Integer, "", 1, day, "The older form of `timeout`."},
	{tableScanner, "escalation", Table, "{}", 0, 0, "The registry's verdict policy; not read here."},
	{tableScanner, "api_url", String, `""`, 0, 0, "osv: not read here, such scanners run no artifact code and need no sandbox."},
	{tableScanner, "api_key", String, `""`, 0, 0, "mlab, socket: not read here."},
	{tableScanner, "rekor_url", String, `""`, 0, 0, "sigstore: not read here."},
	{tableScanner, "require_for", Strings, "[]", 0, 0, "sigstore: not read here."},

	{tableLayout, "kind", String, `"archive"`, 0, 0, "`archive`, `file` or `none`."},
	{tableLayout, "path", String, `"artifact"`, 0, 0, "Where it goes below `/work`."},
	{tableLayout, "nested", Tables, "", 0, 0, "Inner archives to unpack too, each `{ member = \"data.tar.*\", into = \"data\" }`; default: those of a deb, told by content, and a `data.tar.gz` at the top of a plain tar, which makes it a gem, where there is one."},
	{tableLayout, "files", Table, "{}", 0, 0, "Small files put beside the artifact, path to content."},

	{tableStorage, "default", String, `""`, 0, 0, "The backend that is meant where none is named; may be left out where there is one only."},

	{tableBackend, "type", String, `""`, 0, 0, "What it is: `s3`, `filesystem` or `in_memory`. Must be set."},
	{tableBackend, "endpoint", String, `""`, 0, 0, "s3: the server, as `http://` or `https://` and a host, as the worker and the sandboxes both reach it; empty means AWS S3 in `region`."},
	{tableBackend, "region", String, `"us-east-1"`, 0, 0, "s3: the region that URLs are signed for."},
	{tableBackend, "bucket", String, `""`, 0, 0, "s3: the bucket. Must be set."},
	{tableBackend, "access_key", SecretString, `""`, 0, 0, "s3: the access key; see below for where else it may come from."},
	{tableBackend, "secret_key", SecretString, `""`, 0, 0, "s3: the secret key."},
	{tableBackend, "access_key_env", String, `""`, 0, 0, "s3: the environment variable that holds the access key."},
	{tableBackend, "secret_key_env", String, `""`, 0, 0, "s3: the environment variable that holds the secret key."},
	{tableBackend, "path_style", Boolean, "false", 0, 0, "s3: the bucket goes into the path of a URL and not into its host, as most servers but AWS want it."},
	{tableBackend, "ca_file", String, `""`, 0, 0, "s3: certificates in PEM that the worker trusts besides the system's. Sandboxes don't read it."},
	{tableBackend, "path", String, `""`, 0, 0, "filesystem: the directory. Must be set."},
}

// reasons say why a bound is what it is, where it is not the key's own.
var reasons = map[string]string{
	tableCrun + ".cpu_milli": "the kernel takes no quota of less than 1 ms in each 100 ms",
}

// foreign are the top-level keys of the registry's own configuration. A worker
// may be given the registry's file, so they are let through and not looked at.
var foreign = []string{
	"config_version", "server", "database", "auth", "cache", "registries", "grants",
	"otel", "limits", "ip_blocking", "notifications", "flag_sources", "release_imports", "air_gap",
	"proxy", "vulnerability_scan", "cache_coherence", "upstream_audit", "subdomain_routing",
	"stats", "search",
}

// index has the keys by path, and the names in each table.
var index, tables = buildIndex()

func buildIndex() (map[string]Key, map[string][]string) {
	byPath, byTable := map[string]Key{}, map[string][]string{}
	for _, k := range keys {
		if _, twice := byPath[k.Path()]; twice {
			panic(fmt.Sprintf("config: key %s is listed twice", k.Path()))
		}
		byPath[k.Path()] = k
		byTable[k.Table] = append(byTable[k.Table], k.Name)
	}
	byTable[""] = append([]string{"worker", "scanners", "storage"}, foreign...)
	byTable[tableStorage] = append(byTable[tableStorage], "backends")
	byTable[tableWorker] = append(byTable[tableWorker], "sandbox")
	byTable[tableSandbox] = append(byTable[tableSandbox], "bwrap", "oci", "kubernetes", "crun")
	return byPath, byTable
}
