package oci

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// outOfMemory asks the engine whether a run's container, which is gone, was
// out of memory. Docker's daemon remembers its last events; podman keeps none
// of the kind, so that it is not known there.
func (r *Runtime) outOfMemory(ctx context.Context, j *job, began time.Time) (out, known bool) {
	if r.config.Engine != Docker {
		return false, false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
	defer cancel()
	seconds := func(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }
	exit, err := r.engine.call(ctx, j.host.path, "events", "--since", seconds(began), "--until", seconds(time.Now().Add(time.Second)),
		"--filter", "container="+j.name(), "--format", "{{.Action}}")
	if err != nil || exit.Status != 0 {
		return false, false
	}
	actions := strings.Fields(exit.Stdout)
	for _, action := range actions {
		if action == "oom" {
			return true, true
		}
	}
	return false, len(actions) > 0
}
