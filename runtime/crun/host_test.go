package crun

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// ordinaryHost is a tree like that of a host with everything, on cgroup v2.
func ordinaryHost() map[string]string {
	files := map[string]string{
		"/proc/keys": "", "/proc/sysvipc/shm": "",
		"/proc/self/mountinfo": "1 0 0:1 / / rw - rootfs rootfs rw\n22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda rw\n" +
			"30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
		"/proc/self/status":  "Name:\tx\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n",
		"/proc/self/uid_map": "         0          0 4294967295\n", "/proc/self/gid_map": "         0          0 4294967295\n",
		"/sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory hugetlb pids rdma misc\n",
	}
	for _, ns := range []string{"user", "pid", "mnt", "net", "uts", "ipc", "cgroup", "time"} {
		files["/proc/self/ns/"+ns] = ""
	}
	return files
}

// laid is a host over a tree with these files.
func laid(t *testing.T, files map[string]string) host {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return host{root: root}
}

func without(names ...string) map[string]string {
	files := ordinaryHost()
	for _, name := range names {
		maps.DeleteFunc(files, func(path, _ string) bool { return path == name || strings.HasPrefix(path, name+"/") })
	}
	return files
}

func with(name, content string) map[string]string {
	files := ordinaryHost()
	files[name] = content
	return files
}

func TestWhatAKernelHasIsSeen(t *testing.T) {
	for what, c := range map[string]struct {
		files map[string]string
		want  Facts
	}{
		"an ordinary one":     {ordinaryHost(), Facts{IPC: true, CgroupNS: true, Keys: true}},
		"no cgroup namespace": {without("/proc/self/ns/cgroup"), Facts{IPC: true, Keys: true}},
		"no IPC at all":       {without("/proc/self/ns/ipc", "/proc/sysvipc"), Facts{CgroupNS: true, Keys: true}},
		"no keys":             {without("/proc/keys"), Facts{IPC: true, CgroupNS: true}},
		"keys, but not shown": {func() map[string]string {
			f := without("/proc/keys")
			f["/proc/sys/kernel/keys/maxkeys"] = "200"
			return f
		}(), Facts{IPC: true, CgroupNS: true, Keys: true}},
		"a ramdisk":           {with("/proc/self/mountinfo", "1 0 0:1 / / rw - rootfs rootfs rw\n2 1 0:2 / /proc rw - proc proc rw\n"), Facts{IPC: true, CgroupNS: true, Keys: true, Ramdisk: true}},
		"a tmpfs as the root": {with("/proc/self/mountinfo", "1 0 0:1 / / rw - rootfs rootfs rw\n2 1 0:2 / / rw - tmpfs tmpfs rw\n"), Facts{IPC: true, CgroupNS: true, Keys: true}},
	} {
		got, fault := laid(t, c.files).facts()
		if fault != nil || got != c.want {
			t.Errorf("%s: got %+v, %v, want %+v", what, got, fault, c.want)
		}
	}
}

func TestAKernelWithoutANamespaceIsRefusedByItsName(t *testing.T) {
	for _, c := range []struct {
		missing []string
		code    sandbox.Code
		says    string
	}{
		{[]string{"/proc/self/ns/user"}, sandbox.CodeNotRootless, "CONFIG_USER_NS"},
		{[]string{"/proc/self/ns/pid"}, sandbox.CodeNoEngine, "no pid namespace (CONFIG_NAMESPACES)"},
		{[]string{"/proc/self/ns/mnt"}, sandbox.CodeNoEngine, "no mnt namespace"},
		{[]string{"/proc/self/ns/net"}, sandbox.CodeNoEngine, "no net namespace"},
		{[]string{"/proc/self/ns/uts"}, sandbox.CodeNoEngine, "no uts namespace"},
		{[]string{"/proc/self/ns/ipc"}, sandbox.CodeNoEngine, "System V IPC and no ipc namespace"},
		{[]string{"/proc/self/ns"}, sandbox.CodeNotRootless, "user namespace"},
		{[]string{"/proc/self/ns/uts", "/proc/self/ns/net"}, sandbox.CodeNoEngine, "no net namespace"},
	} {
		_, fault := laid(t, without(c.missing...)).facts()
		if fault == nil || fault.Kind != sandbox.Refused || fault.Code != c.code || !strings.Contains(fault.Error(), c.says) {
			t.Errorf("without %v: got %v, want %s about %q", c.missing, fault, c.code, c.says)
		}
	}
}

func TestAProgramThatHasToPivotIsRefusedWhereItCant(t *testing.T) {
	for _, f := range Flavours {
		for _, ramdisk := range []bool{false, true} {
			fault := canStay(f, Facts{Ramdisk: ramdisk})
			if want := f == Runsc && ramdisk; (fault != nil) != want {
				t.Errorf("%s, ramdisk %t: %v", f, ramdisk, fault)
			} else if want && (fault.Code != sandbox.CodeNoEngine || !strings.Contains(fault.Error(), "runsc leaves its root by pivot_root")) {
				t.Errorf("got %v", fault)
			}
		}
	}
}

func TestAWorkerThatCantWriteTheMapIsNotRootless(t *testing.T) {
	status := func(uid, gid, caps string) map[string]string {
		return with("/proc/self/status", fmt.Sprintf("Uid:\t%s\nGid:\t%s\nCapEff:\t%s\n", uid, gid, caps))
	}
	const all = "000001ffffffffff"
	for what, c := range map[string]struct {
		files map[string]string
		base  uint32
		says  string
	}{
		"root's own ids":          {ordinaryHost(), 0, "the host's own accounts"},
		"real accounts":           {ordinaryHost(), 65535, "the host's own accounts"},
		"ids past the last":       {ordinaryHost(), 1<<32 - 65536, "pass the last id"},
		"the worker's uid":        {status("0 100005 0 0", "0 0 0 0", all), 100_000, "the worker's own id 100005"},
		"the worker's gid":        {status("0 0 0 0", "0 165535 0 0", all), 100_000, "the worker's own id 165535"},
		"no capability":           {status("1000 1000 1000 1000", "0 0 0 0", "0000000000000000"), 100_000, "CAP_CHOWN"},
		"no CAP_SETUID":           {status("0 0 0 0", "0 0 0 0", "000001ffffffff7f"), 100_000, "CAP_SETUID"},
		"no CAP_SYS_ADMIN":        {status("0 0 0 0", "0 0 0 0", "000001ffffdfffff"), 100_000, "CAP_SYS_ADMIN"},
		"no capabilities shown":   {status("0 0 0 0", "0 0 0 0", ""), 100_000, "capabilities"},
		"a map that is too small": {with("/proc/self/uid_map", "0 100000 65536\n"), 100_000, "uid_map"},
		"groups that are not":     {with("/proc/self/gid_map", "0 0 1\n65536 0 10\n"), 100_000, "gid_map"},
		"no map":                  {without("/proc/self/uid_map"), 100_000, "uid_map"},
		"no status":               {without("/proc/self/status"), 100_000, "status"},
	} {
		fault := laid(t, c.files).mayMap(c.base)
		if fault == nil || fault.Code != sandbox.CodeNotRootless || !strings.Contains(fault.Error(), c.says) {
			t.Errorf("%s: got %v, want not_rootless about %q", what, fault, c.says)
		}
	}
	if fault := laid(t, ordinaryHost()).mayMap(100_000); fault != nil {
		t.Error(fault)
	}
}

const (
	v1Mounts = "30 22 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n" +
		"31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
		"32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
		"33 30 0:29 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n" +
		"34 30 0:30 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n"
	unifiedMount = "35 30 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
)

func v1Host() map[string]string {
	files := without("/sys/fs/cgroup/cgroup.controllers")
	files["/proc/self/mountinfo"] = v1Mounts
	return files
}

func hybridHost() map[string]string {
	files := v1Host()
	files["/proc/self/mountinfo"] += unifiedMount
	files["/sys/fs/cgroup/unified/cgroup.controllers"] = "hugetlb\n"
	return files
}

func TestTheCgroupLayoutIsFoundOrRefusedForEachFlavour(t *testing.T) {
	noPids := v1Host()
	noPids["/proc/self/mountinfo"] = strings.ReplaceAll(v1Mounts, "pids", "perf_event")
	nothing := without("/sys/fs/cgroup/cgroup.controllers")
	nothing["/proc/self/mountinfo"] = "22 1 8:1 / / rw - ext4 /dev/sda rw\n"
	const controllers = "/sys/fs/cgroup/cgroup.controllers"
	for what, c := range map[string]struct {
		files      map[string]string
		crun, rest string // what the refusal says; empty means that there is none
	}{
		"v2":                {ordinaryHost(), "", ""},
		"v2 with others":    {with(controllers, "pids memory cpu"), "", ""},
		"v2 without pids":   {with(controllers, "cpu memory"), "lacks the controllers: pids (CONFIG_CGROUPS", "lacks the controllers: pids"},
		"v2 without two":    {with(controllers, "cpuset io memory"), "cpu, pids", "cpu, pids"},
		"v2 without any":    {with(controllers, ""), "cpu, memory, pids", "cpu, memory, pids"},
		"v1":                {v1Host(), "not mounted", ""},
		"hybrid":            {hybridHost(), "hybrid", ""},
		"v1 without pids":   {noPids, "not mounted", "lack the controllers: pids"},
		"no cgroups":        {nothing, "not mounted", "no cgroups are mounted"},
		"no mounts to read": {without("/proc/self/mountinfo", controllers), "not mounted", "reading the mounts"},
	} {
		for _, f := range Flavours {
			says := c.rest
			if f == Crun {
				says = c.crun
			}
			l, fault := laid(t, c.files).layout(f)
			switch {
			case says == "" && (fault != nil || len(l.all) == 0):
				t.Errorf("%s: %s: got %v", what, f, fault)
			case says != "" && (fault == nil || fault.Code != sandbox.CodeNoEngine || !strings.Contains(fault.Error(), says)):
				t.Errorf("%s: %s: got %v, want no_engine about %q", what, f, fault, says)
			}
		}
	}
}

func TestControllersThatAreMountedTogetherAreFound(t *testing.T) {
	h := laid(t, hybridHost())
	l, fault := h.layout(Runc)
	if fault != nil {
		t.Fatal(fault)
	}
	if !l.isV1() || l.v1["cpu"] != h.path("/sys/fs/cgroup/cpu,cpuacct") || l.memory() != h.path("/sys/fs/cgroup/memory") || len(l.all) != 5 {
		t.Errorf("the layout is %+v", l)
	}
}
