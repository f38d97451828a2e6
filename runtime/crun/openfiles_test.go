package crun

import (
	"strings"
	"testing"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

func TestASandboxHasNoMoreOpenFilesThanItsWorkerMayGiveIt(t *testing.T) {
	const all, unprivileged = "000001ffffffffff", "000001fffeffffff" // without CAP_SYS_RESOURCE
	for name, c := range map[string]struct {
		capabilities, hard string
		want               uint64
		refused            bool
	}{
		"as many as it is to have": {unprivileged, "4096", 4096, false},
		"more":                     {unprivileged, "1048576", 4096, false},
		"no limit":                 {unprivileged, "unlimited", 4096, false},
		"fewer":                    {unprivileged, "4095", 4095, false},
		"the fewest":               {unprivileged, "64", 64, false},
		"too few":                  {unprivileged, "63", 0, true},
		"too few, and raised":      {all, "63", 4096, false},
	} {
		files := with("/proc/self/limits", "Limit                     Soft Limit           Hard Limit           Units     \n"+
			"Max processes             10                   10                   processes \n"+
			"Max open files            32                   "+c.hard+"                 files     \n")
		files["/proc/self/status"] = strings.Replace(files["/proc/self/status"], all, c.capabilities, 1)
		facts, fault := laid(t, files).facts()
		if c.refused {
			if fault == nil || fault.Code != sandbox.CodeHostRefused || !strings.Contains(fault.Error(), "hard limit of open files is 63") || fault.Hint == "" {
				t.Errorf("%s: got %v", name, fault)
			}
			continue
		}
		if fault != nil {
			t.Errorf("%s: %v", name, fault)
			continue
		}
		k := sample(Runc)
		k.Host.OpenFiles = facts.OpenFiles
		s, _ := encode(t, k)
		if l := s.Process.Rlimits[0]; l.Hard != c.want || l.Soft != c.want {
			t.Errorf("%s: got %+v, want %d", name, l, c.want)
		}
	}
}
