package crun

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Defaults of ids and limits.
const (
	// DefaultUID is the uid and gid of the agent, inside.
	DefaultUID = 65532
	// DefaultUsernsBase is the host's id of a sandbox's id 0.
	DefaultUsernsBase = 100_000
	// DefaultCPUMilli is one CPU.
	DefaultCPUMilli = 1000
	// DefaultCgroupParent is the cgroup below which every run has its own.
	DefaultCgroupParent = "batlehub-sandbox"

	defaultPids = 256
)

// ParseUser reads "uid:gid", or "uid" for both: decimal numbers from 1 to
// 65535, and nothing else. 0 would be the owner of all ids inside.
func ParseUser(s string) (uid, gid uint32, err error) {
	u, g, two := strings.Cut(s, ":")
	if !two {
		g = u
	}
	if uid, err = parseID(u); err == nil {
		gid, err = parseID(g)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("user %.64q: want uid or uid:gid, each a number from 1 to %d", s, usernsSize-1)
	}
	return uid, gid, nil
}

func parseID(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != s {
		return 0, fmt.Errorf("%.32q is no id", s)
	}
	return uint32(n), nil
}

// checkRange refuses a map in which a sandbox's id could be somebody's on the
// host: root, a real account, or no id at all.
func checkRange(base uint32) error {
	switch {
	case base < usernsSize:
		return fmt.Errorf("the ids from %d on are those of the host's own accounts, want a range from %d on", base, usernsSize)
	case uint64(base)+usernsSize > math.MaxUint32:
		return fmt.Errorf("the ids from %d on pass the last id there is", base)
	}
	return nil
}

// inRange says whether a host's id is one of a sandbox's.
func inRange(base, id uint32) bool { return id >= base && id-base < usernsSize }
