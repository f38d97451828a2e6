package seccomp

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// OwnCap bounds the file of a program's own profile, in bytes.
const OwnCap = 1 << 20

// ErrPin is wrapped when a profile's bytes are not the ones that were pinned.
var ErrPin = errors.New("the profile is not the one that was pinned")

// ErrOwn is wrapped by every refusal of a profile for what it says.
var ErrOwn = errors.New("not a profile that a sandbox may run under")

// Own reads a program's own profile, which stands in for Profile: the bytes
// must have the SHA-256 digest pin ("sha256:" and hexadecimal digits), and the
// profile must allow no call of Never. after are the calls that the OCI
// runtime itself makes once the filter is on; they become the last rule.
func Own(b []byte, pin, arch string, after []string) (*specs.LinuxSeccomp, error) {
	if err := checkPin(b, pin); err != nil {
		return nil, err
	}
	p := new(specs.LinuxSeccomp)
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(p); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOwn, err)
	}
	if d.More() {
		return nil, fmt.Errorf("%w: there is more than one document", ErrOwn)
	}
	if err := checkOwn(p, arch); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOwn, err)
	}
	p.Syscalls = append(p.Syscalls, specs.LinuxSyscall{Names: slices.Clone(after), Action: specs.ActAllow})
	return p, nil
}

func checkPin(b []byte, pin string) error {
	if pin == "" {
		return fmt.Errorf("%w: there is no pin", ErrPin)
	}
	sum := sha256.Sum256(b)
	got := "sha256:" + hex.EncodeToString(sum[:])
	if subtle.ConstantTimeCompare([]byte(got), []byte(strings.ToLower(pin))) != 1 {
		return fmt.Errorf("%w: it is %s", ErrPin, got)
	}
	return nil
}

// ring begins the names of io_uring's calls. A ring takes requests without the
// system calls that a filter looks at. Never does not list them, because the
// profile of all scanners is without them anyway.
const ring = "io_uring_"

func checkOwn(p *specs.LinuxSeccomp, arch string) error {
	switch {
	case p.DefaultAction != specs.ActKillProcess && p.DefaultAction != specs.ActErrno:
		return fmt.Errorf("its default action is %.32q, want %s or %s", p.DefaultAction, specs.ActKillProcess, specs.ActErrno)
	case len(p.Flags) > 0 || p.ListenerPath != "" || p.ListenerMetadata != "":
		return errors.New("it has flags or a listener")
	case len(p.Architectures) == 0 || p.Architectures[0] != native[arch]:
		return fmt.Errorf("its first architecture is not %s", native[arch])
	}
	for i, rule := range p.Syscalls {
		switch rule.Action {
		case specs.ActAllow:
		case specs.ActErrno, specs.ActKillProcess:
			continue
		default:
			return fmt.Errorf("syscalls[%d] has the action %.32q", i, rule.Action)
		}
		for _, name := range rule.Names {
			if forbidden(name) || name == "clone3" || strings.HasPrefix(name, ring) {
				return fmt.Errorf("syscalls[%d] allows %s", i, name)
			}
			// Without a look at its flags it makes namespaces, as unshare does.
			if name == "clone" && len(rule.Args) == 0 {
				return fmt.Errorf("syscalls[%d] allows clone with any flags", i)
			}
		}
	}
	return nil
}
