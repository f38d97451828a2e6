#!/bin/sh
# Builds the parts of the virtual machine that are not in the user's cache yet:
# kernel, root file system and initial file system, in two or three minutes from
# nothing, from the distribution's packages alone. Each part stands in the cache
# under the hash of the files that it is made of.
#
#   heavy/vm/build.sh        builds; called by scripts/vm.sh, which holds the lock
set -eu
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=heavy/vm/settings.sh
. "$here/settings.sh"

# part NAME DIRECTORY: calls NAME NEW unless DIRECTORY stands. NEW appears whole.
part() {
  [ ! -d "$2" ] || return 0
  echo "vm: building the $1, once" >&2
  mkdir -p "$built"
  new=$(mktemp -d "$built/new.XXXXXX")
  log=$built/$1.log
  # In a shell of its own, where the first failure ends it: a condition would not.
  if ! sh "$here/build.sh" "$1" "$new" >"$log" 2>&1; then
    tail -n 15 "$log" >&2
    rm -rf "$new"
    echo "vm: the $1 can't be built here (all of it: $log)" >&2
    exit 1
  fi
  chmod 755 "$new"
  mv "$new" "$2"
}

# The packages of the kernel are unpacked and not installed, with lists of their
# own, so that nothing changes for this host's apt.
make_kernel() {
  apt=$1/apt
  mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$apt/debs"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $kernel_suite main" >"$apt/sources.list"
  # apt's own user may not read below this one's home.
  set -- "$1" -o "Dir::State=$apt/state" -o "Dir::State::status=/dev/null" -o "Dir::Cache=$apt/cache" \
    -o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null -o APT::Sandbox::User=root -o APT::Architecture=amd64
  to=$1
  shift
  apt-get "$@" update
  image=$(apt-cache "$@" depends "$kernel_package" | sed -n 's/^ *Depends: \(linux-image-.*\)/\1/p' | head -n 1)
  version=${image#linux-image-}
  kbuild=$(apt-cache "$@" depends "linux-headers-$version" | sed -n 's/^ *Depends: \(linux-kbuild-.*\)/\1/p' | head -n 1)
  common=$(apt-cache "$@" depends "linux-headers-$version" | sed -n 's/^ *Depends: \(linux-headers-.*-common\)/\1/p' | head -n 1)
  (cd "$apt/debs" && apt-get "$@" download "$image" "linux-headers-$version" "$common" "$kbuild")
  for deb in "$apt/debs"/*.deb; do dpkg-deb -x "$deb" "$apt/files"; done
  mkdir "$to/modules"
  modules=$(find "$apt/files" -type d -path "*lib/modules/$version")
  mv "$modules" "$to/modules/$version"
  elf "$apt/files/boot/vmlinuz-$version" >"$to/vmlinux"
  module "$apt/files" "$version" "$to/modules/$version/ubuserns.ko"
  echo "$version" >"$to/version"
  rm -rf "$apt"
}

# elf VMLINUZ prints the kernel that is packed in it: QEMU starts that as well, and
# the emulated machine is spared the unpacking.
elf() {
  at() { LC_ALL=C grep -abom1 -P "$1" "$2" | cut -d : -f 1; }
  if offset=$(at '\xfd7zXZ\x00' "$1") && [ -n "$offset" ]; then
    tail -c "+$((offset + 1))" "$1" | xz -dc --single-stream 2>/dev/null || true
  elif offset=$(at '\x28\xb5\x2f\xfd' "$1") && [ -n "$offset" ]; then
    tail -c "+$((offset + 1))" "$1" | zstd -dc 2>/dev/null || true
  else
    cat "$1"
  fi
}

# module FILES VERSION OUT: the headers name each other by where they are installed.
module() {
  headers=$1/usr/src/linux-headers-$2
  find "$1/usr/src" -maxdepth 2 -type f -name 'Makefile*' -exec sed -i "s#\([ =]\|^\)/usr/src/#\1$1/usr/src/#g" {} +
  work=$(mktemp -d)
  cp "$here/module/ubuserns.c" "$work"
  echo 'obj-m := ubuserns.o' >"$work/Makefile"
  # Without BTF, which would take pahole.
  make -C "$headers" "M=$work" CONFIG_DEBUG_INFO_BTF_MODULES= modules
  cp "$work/ubuserns.ko" "$3"
  rm -rf "$work"
}

make_root() {
  version=$(cat "$kernel/version")
  tree=$1/tree
  mmdebstrap --variant=essential --include="$(tr '\n' ',' <"$here/packages.txt")" \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    "$root_suite" "$tree" "$mirror"
  mkdir -p "$tree/usr/lib/modules" "$tree/usr/local/lib/vm"
  cp -r "$kernel/modules/$version" "$tree/usr/lib/modules/"
  depmod -b "$tree" "$version"
  cp "$here/module/unprivileged_userns" "$tree/usr/local/lib/vm/"
  chroot "$tree" /usr/sbin/useradd --create-home --uid 1000 --shell /bin/sh user
  echo 'root:100000:1048576' | tee "$tree/etc/subuid" >"$tree/etc/subgid"
  for file in subuid subgid; do printf 'user:2000000:65536\ncontainers:2147483647:2147483648\n' >>"$tree/etc/$file"; done
  mkdir -p "$tree/in" "$tree/out" "$tree/control"
  cp "$tree/usr/bin/busybox" "$1/busybox"
  mkfs.ext4 -q -d "$tree" "$1/root.img" 16G
  rm -rf "$tree"
}

make_initrd() {
  version=$(cat "$kernel/version")
  tree=$1/tree
  mkdir -p "$tree/bin" "$tree/modules" "$tree/proc" "$tree/sys" "$tree/dev" "$tree/root"
  # depmod's lists are those of the whole tree.
  lists=$1/lists
  mkdir -p "$lists/lib/modules"
  cp -r "$kernel/modules/$version" "$lists/lib/modules/"
  depmod -b "$lists" "$version"
  # Each module once, after those that it needs.
  xargs -n 1 modprobe -d "$lists" -S "$version" --show-depends <"$here/modules.txt" | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' |
    while read -r file; do
      name=$(basename "$file" .xz)
      case $file in *.xz) xz -dc "$file" >"$tree/modules/$name" ;; *) cp "$file" "$tree/modules/$name" ;; esac
      echo "$name" >>"$tree/modules/order"
    done
  cp "$root/busybox" "$tree/bin/busybox"
  cp "$here/init" "$here/guest" "$tree/"
  chmod 755 "$tree/init" "$tree/guest"
  (cd "$tree" && find . | sort | bsdtar --format newc --uid 0 --gid 0 -cnf - -T -) | gzip -1 >"$1/initrd"
  rm -rf "$lists" "$tree"
}

if [ $# = 2 ]; then
  "make_$1" "$2"
  exit
fi
part kernel "$kernel"
part root "$root"
part initrd "$initrd"
