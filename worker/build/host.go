package build

import (
	"context"

	"github.com/batleforc/batlehub-sandbox/runtime/bwrap"
	"github.com/batleforc/batlehub-sandbox/runtime/oci"
	"github.com/batleforc/batlehub-sandbox/runtime/room"
	"github.com/batleforc/batlehub-sandbox/worker/doctor"
)

// Host is what a doctor has to know about the runtimes of this build, made from
// those options. It opens nothing.
func Host(o Options) doctor.Runtimes {
	return doctor.Runtimes{
		Direct:  directHost(o),
		Cluster: clusterHost(o),
		Bwrap: doctor.Engine{
			Find: bwrap.FindBinary,
			Version: func(ctx context.Context, path string) (string, bool) {
				v, known := bwrap.ReadVersion(ctx, path)
				if !known {
					return "", true
				}
				return v.String(), !v.Less(bwrap.MinVersion)
			},
			MinVersion: bwrap.MinVersion.String(),
			Diagnose: func(proc, stderr string) (string, []string) {
				d := bwrap.Diagnose(proc, stderr)
				return d.Cause, d.Fixes
			},
			UID: bwrap.UID,
		},
		OCI: doctor.Containers{
			MinVersion: func(engine string) string { return oci.MinVersions[engine].String() },
			Version: func(engine, printed string) (string, bool) {
				v, known := oci.ParseVersion(printed)
				if !known {
					return "", true
				}
				return v.String(), !v.Less(oci.MinVersions[engine])
			},
			Pinned: oci.ParseImage, LosesNetworks: oci.LosesNetworks,
		},
		CheckRoom: func(dir string, commands ...string) ([]doctor.Problem, error) {
			found, err := room.Check(dir, commands...)
			problems := make([]doctor.Problem, 0, len(found))
			for _, p := range found {
				problems = append(problems, doctor.Problem{Path: p.Path, Detail: p.Detail, Fix: p.Fix})
			}
			return problems, err
		},
	}
}
