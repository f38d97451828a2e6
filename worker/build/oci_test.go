package build

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
	"github.com/batleforc/batlehub-sandbox/worker/config"
)

// The order is the scanner's image, the runtime's, the worker's own.
func TestTheImageOfARunIsTheScannersThenTheRuntimesThenTheWorkers(t *testing.T) {
	for _, c := range []struct{ scanner, runtime, worker, want string }{
		{"s", "r", "w", "s"},
		{"s", "r", "", "s"},
		{"s", "", "w", "s"},
		{"s", "", "", "s"},
		{"", "r", "w", "r"},
		{"", "r", "", "r"},
		{"", "", "w", "w"},
		{"", "", "", ""},
	} {
		images := Images{Configured: c.runtime, Worker: c.worker, Runtime: "oci"}
		got, err := images.Of("gitleaks", c.scanner)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
		if err != nil && (!config.IsConfig(err) || err.Error() != "there is no image to run scanner 'gitleaks' in; "+
			"set [scanners.gitleaks] image or [worker.sandbox.oci] image, or start the worker with BATLEHUB_IMAGE") {
			t.Error(err)
		}
		if images.IsWorkers(got) != (got == "w") {
			t.Errorf("%+v: %q taken for the worker's, or not", c, got)
		}
	}
}

func TestAnImageThatIsAlsoTheWorkersIsItWhoeverNamedIt(t *testing.T) {
	if images := (Images{Configured: "w", Worker: "w"}); !images.IsWorkers("w") || (Images{}).IsWorkers("") {
		t.Errorf("%+v", images)
	}
}

// read is a configuration of that text, with what the command line has over it,
// and the file that it is in.
func read(t *testing.T, text string, over ...config.Override) (c *config.Config, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.LoadWith(over, file)
	if err != nil {
		t.Fatal(err)
	}
	return c, file
}

func loaded(t *testing.T, text string) Options {
	t.Helper()
	c, _ := read(t, text)
	bundles, _ := c.BundleBackend()
	return Options{Sandbox: c.Worker.Sandbox, Worker: "w", Storage: c.Storage, Bundles: bundles, Getenv: func(string) string { return "" }}
}

const storageConfig = "[worker.sandbox]\nruntime = \"oci\"\nbundle_backend = \"bundles\"\n[worker.sandbox.oci]\nengine = \"docker\"\ntransport = \"storage\"\n" +
	"[storage]\ndefault = \"disk\"\n[storage.backends.disk]\ntype = \"filesystem\"\npath = \"/nonexistent/x\"\n" +
	"[storage.backends.other]\ntype = \"s3\"\nbucket = \"x\"\n" +
	"[storage.backends.bundles]\ntype = \"s3\"\nendpoint = \"http://192.0.2.1:9000\"\nbucket = \"cache\"\npath_style = true\n"

// Nothing else than the bundles' backend has to be usable, and nothing of the
// others is made.
func TestBundlesTravelThroughTheirBackendWhateverTheOthersAre(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	o := loaded(t, storageConfig+"access_key = \"a\"\nsecret_key = \"s\"\n")
	b, err := Runtime(o)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Placement("room"); got != "engine docker, image room, bundles on s3://cache/sandbox/" {
		t.Error(got)
	}
	if _, is := b.Runtime.(sandbox.JobCloser); !is {
		t.Errorf("%+v", b)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat("/nonexistent"); err == nil {
		t.Error("a directory was made")
	}
}

func TestCredentialsComeFromTheFirstPlaceThatHasThem(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(file, []byte("[default]\naws_access_key_id = FA\naws_secret_access_key = FS\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, config     string
		env              map[string]string
		access, secret   string
		session, refused string
	}{
		{"inline", "access_key = \"ia\"\nsecret_key = \"is\"\n", map[string]string{"AWS_ACCESS_KEY_ID": "ea", "AWS_SECRET_ACCESS_KEY": "es"}, "ia", "is", "", ""},
		{"named", "access_key_env = \"A\"\nsecret_key_env = \"S\"\n", map[string]string{"A": "na", "S": "ns", "AWS_ACCESS_KEY_ID": "ea"}, "na", "ns", "", ""},
		{"named and not set", "access_key_env = \"A\"\nsecret_key_env = \"S\"\n", map[string]string{"A": "na", "AWS_ACCESS_KEY_ID": "ea"}, "", "", "", "secret_key_env names the variable \"S\", which is not set"},
		{"AWS", "", map[string]string{"AWS_ACCESS_KEY_ID": "ea", "AWS_SECRET_ACCESS_KEY": "es", "AWS_SESSION_TOKEN": "et"}, "ea", "es", "et", ""},
		{"the file of AWS", "", map[string]string{"AWS_SHARED_CREDENTIALS_FILE": file}, "FA", "FS", "", ""},
		{"none", "", nil, "", "", "", "there are no credentials for it; set access_key_env"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "HOME"} {
				t.Setenv(name, "")
			}
			t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			o := loaded(t, storageConfig+c.config)
			o.Getenv = func(name string) string { return c.env[name] }
			access, secret, session, err := o.keys(o.Bundles)
			if c.refused == "" && (access != c.access || session != c.session || secret != c.secret) || (err != nil) != (c.refused != "") {
				t.Errorf("%q %q %q %v", access, secret, session, err)
			}
			if c.refused == "" {
				return
			}
			_, err = Runtime(o)
			if err == nil || !config.IsConfig(err) || !strings.Contains(err.Error(), ":15: backend 'bundles': "+c.refused) || strings.Contains(err.Error(), "na\"") {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestASandboxIsToldOfTheServerThatUrlsLeadTo(t *testing.T) {
	for want, c := range map[string]config.Backend{
		"http://127.0.0.1:9000":                {Endpoint: "http://127.0.0.1:9000/", Bucket: "b", PathStyle: true},
		"https://b.minio.example:9000":         {Endpoint: "https://minio.example:9000", Bucket: "b"},
		"https://b.s3.eu-west-3.amazonaws.com": {Region: "eu-west-3", Bucket: "b"},
		"https://s3.eu-west-3.amazonaws.com":   {Region: "eu-west-3", Bucket: "b", PathStyle: true},
	} {
		if got := StorageURL(c); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// The scanner's program is in its image, and nothing looks for it here.
func TestACommandThatThisHostLacksIsNoObstacleOnAnImageRuntime(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	o := loaded(t, "[worker.sandbox]\nruntime = \"oci\"\n[scanners.x]\ncommand = \"no-such-program\"\nimage = \"x\"\n")
	b, err := Runtime(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
