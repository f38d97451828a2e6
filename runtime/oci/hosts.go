package oci

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/batleforc/batlehub-sandbox/runtime/bundle"
	"github.com/batleforc/batlehub-sandbox/runtime/sandbox"
)

// writeHosts writes the /etc/hosts of a podman container on a network, beside
// its bundle and gone with it.
func (r *Runtime) writeHosts(p parcel, in *Instance) *sandbox.Error {
	if r.config.Engine != Podman || in.Network == noNetwork {
		return nil
	}
	in.HostsFile = filepath.Join(p.beside(), "hosts")
	// Everybody may read it, whatever the umask says: who is root inside is
	// nobody here.
	err := os.WriteFile(in.HostsFile, hostsFile(in.Hosts), 0o600)
	if err == nil {
		err = os.Chmod(in.HostsFile, 0o444)
	}
	if err == nil {
		return nil
	}
	fault := &sandbox.Error{Kind: sandbox.Crashed, Code: sandbox.CodeInternal, Detail: "writing the container's hosts file", Err: err}
	if bundle.IsNoSpace(err) {
		fault.Code, fault.Hint = sandbox.CodeNoSpace, r.freeSpace()
	}
	return fault
}

// hostsFile is what a container itself is called, and names as "name:ip".
func hostsFile(names []string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "127.0.0.1 localhost %s\n", hostname)
	for _, entry := range names {
		name, address, _ := strings.Cut(entry, ":")
		fmt.Fprintf(&b, "%s %s\n", address, name)
	}
	return []byte(b.String())
}
