# What the scripts here share; read with `.` by a script that has set here.
# Everything that is built or run stands below $vm, which may be deleted whenever
# no machine is up.
# shellcheck shell=sh disable=SC2034,SC2154
vm=${BATLEHUB_VM:-${XDG_CACHE_HOME:-$HOME/.cache}/batlehub-sandbox/vm}
built=$vm/built
runs=$vm/runs # one directory per machine that is up, and gone with it

# The kernel is built with the compiler of the release before the guest's, so that
# a host of that release can build a module for it.
kernel_suite=bookworm-backports
kernel_package=linux-image-amd64
root_suite=trixie
mirror=${BATLEHUB_VM_MIRROR:-http://deb.debian.org/debian}

# hash FILE…: of what a part is made of. The number changes when build.sh makes
# something else of the same files.
hash() { { echo recipe 1; cd "$here" && cat "$@"; } | sha256sum | cut -c 1-12; }

kernel=$built/kernel-$(hash build.sh settings.sh module/ubuserns.c)
root=$built/root-$(hash build.sh settings.sh module/ubuserns.c module/unprivileged_userns packages.txt)
initrd=$built/initrd-$(hash build.sh settings.sh module/ubuserns.c modules.txt init guest)

have() { command -v "$1" >/dev/null 2>&1; }
