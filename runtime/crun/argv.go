package crun

// The arguments of the program. Every function here is pure.

// global are the flags that stand before every verb but --version.
func global(f Flavour, root string) []string {
	switch f {
	case Crun:
		return []string{"--root", root, "--cgroup-manager=cgroupfs"}
	case Runsc:
		// Without --oci-seccomp the profile is ignored; without an overlay of
		// its own, what is written is where it was meant to be.
		return []string{"--root", root, "--network=none", "--platform=systrap", "--oci-seccomp", "--overlay2=none"}
	}
	return []string{"--root", root}
}

// runArgs start the container in the foreground, so that its end is the
// program's, and its stderr too.
func runArgs(f Flavour, host Facts, bundle, name string) []string {
	return append(append([]string{"run"}, hostFlags(f, host)...), "--bundle", bundle, name)
}

// createArgs make the container without starting what is in it.
func createArgs(f Flavour, host Facts, bundle, name string) []string {
	host.V1 = false // what is created is kept anyway
	return append(append([]string{"create"}, hostFlags(f, host)...), "--bundle", bundle, name)
}

func hostFlags(f Flavour, host Facts) []string {
	var flags []string
	if f == Runsc {
		return nil
	}
	if !host.Keys {
		flags = append(flags, "--no-new-keyring")
	}
	if host.Ramdisk {
		flags = append(flags, "--no-pivot")
	}
	if f == Runc && host.V1 {
		// Of a container that ran out of memory v1 tells in its own cgroup
		// alone, which runc would have removed by then.
		flags = append(flags, "--keep")
	}
	return flags
}

func startArgs(name string) []string  { return []string{"start", name} }
func killArgs(name string) []string   { return []string{"kill", name, "KILL"} }
func deleteArgs(name string) []string { return []string{"delete", "--force", name} }
func stateArgs(name string) []string  { return []string{"state", name} }
