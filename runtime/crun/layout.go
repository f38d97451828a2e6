package crun

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// cgroupRoot is where cgroups are mounted.
const cgroupRoot = "/sys/fs/cgroup"

// controllers are those that the limits are set by.
var controllers = []string{"cpu", "memory", "pids"}

// kernelOptions are what a kernel is built with to have them.
const kernelOptions = "CONFIG_CGROUPS, CONFIG_MEMCG, CONFIG_CGROUP_PIDS, CONFIG_CFS_BANDWIDTH"

// layout is how this host's cgroups are mounted. The paths are this process's.
type layout struct {
	// v2 is the mount of the one hierarchy, empty on v1.
	v2 string
	// v1 has the mount of each of our controllers.
	v1 map[string]string
	// freezer is the mount of the v1 hierarchy that can hold processes without
	// limiting them, empty where there is none.
	freezer string
	// all are the mounts of every hierarchy: a v1 program makes its cgroup in
	// each.
	all []string
}

func (l layout) isV1() bool { return l.v2 == "" }

// memory is the mount that tells of memory.
func (l layout) memory() string {
	if l.v2 != "" {
		return l.v2
	}
	return l.v1["memory"]
}

// layout finds the hierarchies that a flavour can be limited by. A host on
// which it can't is refused with what is missing: no sandbox runs without its
// limits.
func (h host) layout(f Flavour) (layout, *sandbox.Error) {
	root := h.path(cgroupRoot)
	have, err := os.ReadFile(path.Join(root, "cgroup.controllers"))
	if err == nil {
		if missing := lacking(strings.Fields(string(have))); missing != "" {
			return layout{}, noEngine(fmt.Sprintf("cgroup v2 at %s lacks the controllers: %s (%s)", root, missing, kernelOptions), nil,
				"use a kernel with these controllers, and delegate them to the worker")
		}
		return layout{v2: root, all: []string{root}}, nil
	}
	if f == Crun && !h.hidden {
		return layout{}, h.notForCrun(root, err)
	}
	return h.layoutV1(root)
}

// notForCrun is the refusal of a host without the one hierarchy that crun is
// run on.
func (h host) notForCrun(root string, err error) *sandbox.Error {
	detail := fmt.Sprintf("cgroup v2 is not mounted at %s, and the limits need it", root)
	if h.has(cgroupRoot + "/unified/cgroup.controllers") {
		detail = fmt.Sprintf("the cgroups at %s are hybrid (v1, and a cgroup v2 without the controllers beside it), "+
			"with which crun refuses to work", root)
	}
	return noEngine(detail, err, "mount cgroup v2 alone (systemd.unified_cgroup_hierarchy=1), or set program to runc or runsc")
}

func (h host) layoutV1(root string) (layout, *sandbox.Error) {
	mounts, err := h.mounts()
	if err != nil {
		return layout{}, noEngine("reading the mounts", err, "")
	}
	l := layout{v1: make(map[string]string)}
	for _, m := range mounts {
		if m.FSType != "cgroup" && m.FSType != "cgroup2" || !strings.HasPrefix(m.Mountpoint, cgroupRoot+"/") {
			continue
		}
		dir := h.path(m.Mountpoint)
		l.all = append(l.all, dir)
		if m.FSType != "cgroup" {
			continue
		}
		held := strings.Split(m.VFSOptions, ",")
		if slices.Contains(held, "freezer") {
			l.freezer = dir
		}
		for _, c := range controllers {
			if slices.Contains(held, c) {
				l.v1[c] = dir
			}
		}
	}
	if len(l.all) == 0 {
		return layout{}, noEngine(fmt.Sprintf("no cgroups are mounted at %s, neither v2 nor v1", root), nil,
			"mount cgroup v2 at "+cgroupRoot)
	}
	var found []string
	for c := range l.v1 {
		found = append(found, c)
	}
	if missing := lacking(found); missing != "" {
		return layout{}, noEngine(fmt.Sprintf("the cgroups (v1) at %s lack the controllers: %s (%s)", root, missing, kernelOptions), nil,
			"mount these controllers, or cgroup v2 alone")
	}
	return l, nil
}

// lacking names the controllers that are missing.
func lacking(have []string) string {
	var missing []string
	for _, c := range controllers {
		if !slices.Contains(have, c) {
			missing = append(missing, c)
		}
	}
	return strings.Join(missing, ", ")
}
