package oci

import (
	"slices"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// withExtra is what New says about extra_args.
func withExtra(t *testing.T, engine string, args ...string) error {
	t.Helper()
	r, err := New(Config{Engine: engine, ExtraArgs: args})
	if err == nil {
		err = r.Close()
	}
	return err
}

func TestFlagsThatNoProbeCouldSeeAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"--pids-limit", "-1"},
		{"--runtime=runsc", "--cpus=0"},
		{"--rm=false"},
		{"--purge=false"},
		{"--name", "x"},
		{"--no-hosts=false"},
		{"-d"},
		{"-td"},
		{"-l", "a=b"},
		{"-la=b"},
		{"-itl=a=b"},
		{"-e", "-d"},
	} {
		if err := withExtra(t, Podman, args...); sandbox.CodeOf(err) != sandbox.CodeConfig || !strings.Contains(err.Error(), "extra_args has --") {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestExtraArgumentsThatMountOverTheRuntimesOwnPathsAreRefused(t *testing.T) {
	for own, lines := range map[string][][]string{
		"/work": {
			{"--tmpfs", "/work"},
			{"--tmpfs=/work"},
			{"--tmpfs", "/work:rw,size=9g"},
			{"--tmpfs", "/work/"},
			{"--tmpfs", "//work"},
			{"--tmpfs", "/work/../work"},
			{"--tmpfs", "/x/../work/./sub"},
			{"--tmpfs", "work"},
			{"--tmpfs", "../work"},
			{"--tmpfs", "/work/a,/b"},
			{"--mount", "type=tmpfs,dst=/work"},
			{"--mount=type=tmpfs,dst=/work"},
			{"--mount", "target=/work,type=tmpfs,tmpfs-size=9g"},
			{"--mount", "destination=/work/a,src=/b,type=bind"},
			{"--mount", "type=tmpfs,DST=/work"},
			{"--mount", `type=tmpfs,"dst=//work"`},
			{"--mount", "type=tmpfs, target=/work"},
			{"--mount", "type=tmpfs,dst=work"},
			{"--mount", "type=tmpfs,dst=/a,dst=/work"},
			{"-v", "a:/work"},
			{"-va:/work"},
			{"-v=a:/work"},
			{"-itv", "a:/work"},
			{"-tv/a:/work:ro"},
			{"-v", "/work"},
			{"-v", "a:work"},
			{"--volume", "a:/work:ro,z"},
			{"--volume=/a:/work/../work"},
			{"--volume", "/work/inner"},
			{"--runtime=runsc", "--privileged", "--tmpfs", "/work"},
			{"-e", "A=b", "-v", "a:/work"},
			{"--privileged", "-v", "a:/work"},
			{"--device", "/dev/null:/work/x"},
			{"--secret", "s,target=/work/x"},
			{"--secret", "s,type=mount,target=../../work/x"},
		},
		"/bundle":          {{"-v", "/etc:/bundle:ro"}, {"--tmpfs=/bundle/manifest.json"}},
		"/out":             {{"--tmpfs", "/out"}},
		"/usr/local/bin":   {{"-v", "/opt/bin:/usr/local/bin"}, {"-v", "/a:/usr/local/bin/batlehub-sandbox:ro"}, {"-v", "/a:/usr/local"}, {"-v", "/a:/usr"}, {"-v", "/a:/"}},
		"/usr/bin":         {{"--tmpfs", "/usr/bin:rw"}},
		"/bin":             {{"-v", "/a:/bin/tool"}},
		"/dev":             {{"--tmpfs", "/dev/shm"}, {"-v", "/dev/sda:/dev/sda"}},
		"/proc":            {{"-v", "/proc:/proc"}, {"--mount", "type=bind,src=/dev/null,dst=/proc/self/status"}},
		"/sys":             {{"-v", "/sys:/sys:ro"}, {"--mount", "type=tmpfs,destination=/sys/fs/cgroup"}},
		"/etc/hosts":       {{"-v", "/etc/hosts:/etc/hosts:ro"}, {"--tmpfs", "/etc"}},
		"/etc/resolv.conf": {{"--mount", "type=bind,source=/a,target=/etc/resolv.conf,ro"}},
	} {
		for _, args := range lines {
			for _, engine := range []string{Podman, Docker} {
				err := withExtra(t, engine, args...)
				if sandbox.CodeOf(err) != sandbox.CodeConfig || !strings.Contains(err.Error(), own+" is the runtime's own") || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s, %q: got %v, want a refusal that names %s", engine, args, err, own)
				}
			}
		}
	}
}

func TestMountsOfWhichNobodyKnowsWhereAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"--volumes-from", "other"}, {"--volumes-from=other:ro"}, {"--mount", "type=glob,src=/work*"}, {"--mount", "type=tmpfs"}, {"--mount", ""},
	} {
		if err := withExtra(t, Podman, args...); sandbox.CodeOf(err) != sandbox.CodeConfig || !strings.Contains(err.Error(), "extra_args has "+strings.SplitN(args[0], "=", 2)[0]) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestExtraArgumentsThatHideNothingAreTaken(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"--runtime=runsc", "--privileged"},
		{"--cgroup-parent", "/sandboxes"},
		{"--tmpfs", "/workshop"},
		{"--tmpfs=/var/work"},
		{"-v", "/work:/var/db:ro"},
		{"-v", "db:/usr/share/db"},
		{"-v", "/a:/b:dev,ro"},
		{"--volume", "/cache"},
		{"--mount", "type=bind,src=/work,dst=/srv/db,ro"},
		{"--mount", `type=tmpfs,"destination=/etc/ssl"`},
		{"--device", "/dev/kvm"},
		{"--device", "/dev/kvm:/dev/kvm:rw"},
		{"--secret", "s"},
		{"--secret", "s,target=token"},
		{"-e", "DIR=/work"},
		{"-eA=v/work"},
		{"-w", "/work"},
		{"-m8g"},
		{"-t=false", "-i"},
		{"-h", "/work"},
		{"--", ""},
	} {
		for _, engine := range []string{Podman, Docker} {
			if err := withExtra(t, engine, args...); err != nil {
				t.Errorf("%s, %q: %v", engine, args, err)
			}
		}
	}
}

func TestNamesOfHostsAreAddedWhereTheEngineCan(t *testing.T) {
	if err := withExtra(t, Podman, "--add-host=db:192.0.2.1"); sandbox.CodeOf(err) != sandbox.CodeConfig || !strings.Contains(err.Error(), "extra_args has --add-host") {
		t.Errorf("got %v", err)
	}
	if err := withExtra(t, Docker, "--add-host", "db:192.0.2.1"); err != nil {
		t.Error(err)
	}
}

func TestAWordOfLettersIsReadAsTheEnginesReadIt(t *testing.T) {
	for word, want := range map[string][]option{
		"-v":        {{"--volume", "next"}},
		"-v/a":      {{"--volume", "/a"}},
		"-v=/a":     {{"--volume", "/a"}},
		"-itdv/a:b": {{}, {}, {"--detach", ""}, {"--volume", "/a:b"}},
		"-d=false":  {{"--detach", "false"}},
		"-ev/a":     {{"", "v/a"}},
		"-":         nil,
	} {
		if got := optionsOf([]string{word, "next"}); !slices.Equal(got, want) {
			t.Errorf("%s: got %+v, want %+v", word, got, want)
		}
	}
}

func TestAnImageThatIsAFlagIsRefusedWithWhatToSet(t *testing.T) {
	for _, image := range []string{"--privileged", "-v=/:/host", "oci:/etc"} {
		_, err := New(Config{Image: image})
		if sandbox.CodeOf(err) != sandbox.CodeConfig || !strings.Contains(err.Error(), image) || !strings.Contains(err.Error(), "name an image as registry/name@sha256:") {
			t.Errorf("%s: %v", image, err)
		}
	}
}
