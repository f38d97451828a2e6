#!/bin/sh
# Installs what tests and demo use from a Debian or Ubuntu host. Without the
# right to install, or on another distribution, it says what is missing; the
# tests that need it are then reported as not run.
#
#   scripts/setup.sh            what ./task test and ./task demo use
#   scripts/setup.sh engines    the container engines as well, for the tasks that need one
#   scripts/setup.sh cluster    what scripts/cluster.sh makes a node of as well
#   scripts/setup.sh vm         what scripts/vm.sh makes a machine of as well
set -eu

missing=
need() { # PROGRAM PACKAGE
  command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
need bwrap bubblewrap
need setpriv util-linux
need unzip unzip
need zip zip
need bsdtar libarchive-tools
need xz xz-utils
need zstd zstd
need bzip2 bzip2
need gcc gcc
need musl-gcc musl-tools
[ -e /usr/include/seccomp.h ] || missing="$missing libseccomp-dev"
if [ "${1-}" = engines ]; then
  need podman podman
  need runc runc
  need crun crun
  need newuidmap uidmap
  need slirp4netns slirp4netns
  need fuse-overlayfs fuse-overlayfs
  need nft nftables
  need iptables iptables
  need ip iproute2
  need strace strace
  need yara yara
  need clamscan clamav
  # A docker daemon that answers may be another package's; it is left alone.
  if ! docker version >/dev/null 2>&1; then need dockerd docker.io; fi
  # Podman's network programs stand outside PATH.
  for helper in netavark aardvark-dns; do
    [ -x "/usr/lib/podman/$helper" ] || [ -x "/usr/libexec/podman/$helper" ] || missing="$missing $helper"
  done
fi
if [ "${1-}" = cluster ]; then
  need containerd containerd
  need runc runc
  need crun crun
  need iptables iptables
  need ipset ipset
  need conntrack conntrack
  need openssl openssl
  need curl curl
  need ip iproute2
  need nsenter util-linux
  need sysctl procps
  [ -x /usr/lib/cni/bridge ] || [ -x /opt/cni/bin/bridge ] || missing="$missing containernetworking-plugins"
fi
if [ "${1-}" = vm ]; then
  need qemu-system-x86_64 qemu-system-x86
  need mmdebstrap mmdebstrap
  need mkfs.ext4 e2fsprogs
  need depmod kmod
  need make make
  need dpkg-deb dpkg
  # The kernel's own build tools, and the signatures of the packages.
  [ -e /usr/lib/x86_64-linux-gnu/libelf.so.1 ] || missing="$missing libelf1"
  [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing="$missing debian-archive-keyring"
fi
[ -n "$missing" ] || exit 0

sudo=
if [ "$(id -u)" != 0 ]; then sudo="sudo -n"; fi
if command -v apt-get >/dev/null 2>&1 && $sudo true 2>/dev/null; then
  echo "setup: installing$missing" >&2
  log=$(mktemp)
  # An old package list is the usual reason for a failed install: update then.
  # shellcheck disable=SC2086
  if ! DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y --no-install-recommends $missing >"$log" 2>&1; then
    $sudo apt-get update >"$log" 2>&1 &&
      DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y --no-install-recommends $missing >>"$log" 2>&1 || {
      tail -n 5 "$log" >&2
      echo "setup: could not install$missing; install them by hand" >&2
      rm -f "$log"
      exit 1
    }
  fi
  rm -f "$log"
else
  echo "setup: missing$missing; tests that need them are not run" >&2
fi
