package launch

import (
	"context"
	"errors"
)

// WitnessReport is what a process sees of itself behind the limits and the
// filter that a scanner would get.
type WitnessReport struct {
	// Seccomp, SeccompFilters and NoNewPrivs are the lines of
	// /proc/self/status: 2 is filter mode. SeccompFilters is -1 where the
	// kernel does not print it.
	Seccomp        int `json:"seccomp"`
	SeccompFilters int `json:"seccomp_filters"`
	NoNewPrivs     int `json:"no_new_privs"`
	// Denied maps the name of a system call that the filter must refuse to
	// the errno that came back, such as "EPERM"; "ok" if it went through.
	Denied map[string]string `json:"denied"`
	// Uid is the effective uid.
	UID int `json:"uid"`
}

// Witness starts this program's executable again as a witness, behind no new
// privileges and the filter, and returns what it saw.
func Witness(ctx context.Context) (WitnessReport, error) {
	return WitnessReport{}, errors.ErrUnsupported
}
