#!/bin/sh
# A virtual machine for what this host may not have: cgroup v2, the program crun
# over it, AppArmor and its restriction of user namespaces, a root that is the
# kernel's first file system. One command in, its output and its status out.
#
#   scripts/vm.sh build                    builds what is missing (once, two or three minutes)
#   scripts/vm.sh run [OPTION…] COMMAND…   runs a command as root in a new machine
#   scripts/vm.sh down                     ends every machine that run has started
#
#   --in PATH=DIRECTORY    shows a directory of this host's, read-only, at PATH inside
#   --out DIRECTORY        is /out inside, and keeps what is written there
#   --kernel PARAMETER     one more parameter of the kernel's
#   --ramdisk              stays in the kernel's first file system
#   --seconds N            ends the machine after that long (default 600); the status is 124 then
#
# The machine is emulated: QEMU without KVM, so it needs no right on this host (but
# root to be built) and is ten to twenty times slower. VM_MEMORY (MiB, default 3072) and VM_CPUS
# (default 2) say how large it is. What happens on its disk is forgotten.
set -eu

scripts=$(cd "$(dirname "$0")" && pwd)
here=$scripts/../heavy/vm
# shellcheck source=heavy/vm/settings.sh
. "$here/settings.sh"

fail() {
  echo "vm: $*" >&2
  exit 125
}

build() {
  [ "$(uname -m)" = x86_64 ] || fail "not run: the machine is an amd64 one, and its module is built with this host's compiler"
  [ -d "$root" ] || [ "$(id -u)" = 0 ] || fail "not run: building the machine's root file system takes root"
  for program in qemu-system-x86_64 mmdebstrap mkfs.ext4 depmod bsdtar dpkg-deb make gcc; do
    have "$program" || [ -x "/usr/sbin/$program" ] || [ -x "/sbin/$program" ] || fail "not run: there is no $program here (scripts/setup.sh vm)"
  done
  mkdir -p "$vm"
  exec 9>"$vm/lock"
  if have flock; then flock 9; fi
  PATH=$PATH:/usr/sbin:/sbin nice -n 15 sh "$here/build.sh" 9>&-
  exec 9>&-
}

# quoted WORD…: a line that a shell reads as these words.
quoted() {
  for word; do printf "'%s' " "$(printf %s "$word" | sed "s/'/'\\\\''/g")"; done
}

run() {
  out='' parameters='' seconds=600 shares=0 readers=''
  mkdir -p "$runs"
  dir=$(mktemp -d "$runs/XXXXXX")
  trap 'end' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  mkdir "$dir/control"
  : >"$dir/control/in"
  : >"$dir/devices"
  while [ $# -gt 0 ]; do
    case $1 in
      --in) shift; share "tag$shares" "${1#*=}" ,readonly=on; echo "tag$shares ${1%%=*}" >>"$dir/control/in"; shares=$((shares + 1)) ;;
      --out) shift; out=$1; mkdir -p "$out"; share out "$out" ''; : >"$dir/control/has-out" ;;
      --kernel) shift; parameters="$parameters $1" ;;
      --ramdisk) parameters="$parameters vm.ramdisk" ;;
      --seconds) shift; seconds=$1 ;;
      --) shift; break ;;
      -*) fail "unknown option $1" ;;
      *) break ;;
    esac
    shift
  done
  [ $# -gt 0 ] || fail "there is no command to run"
  quoted "$@" >"$dir/control/command"
  share control "$dir/control" ''
  mkfifo "$dir/stdout" "$dir/stderr"
  cat "$dir/stdout" &
  readers=$!
  cat "$dir/stderr" >&2 &
  readers="$readers $!"
  # shellcheck disable=SC2046
  set -- $(cat "$dir/devices")
  # What is written to the disk goes to a file that has no name any more.
  TMPDIR=$dir nice -n 15 timeout "$seconds" qemu-system-x86_64 \
    -accel tcg,thread=multi -M q35 -cpu Nehalem -smp "${VM_CPUS:-2}" -m "${VM_MEMORY:-3072}" \
    -display none -nodefaults -no-reboot -monitor none \
    -kernel "$kernel/vmlinux" -initrd "$initrd/initrd" \
    -append "console=hvc0 loglevel=4 panic=-1 lsm=landlock,lockdown,yama,apparmor,bpf apparmor=1$parameters" \
    -drive "file=$root/root.img,if=virtio,format=raw,snapshot=on" \
    -device virtio-serial-pci -chardev "file,id=console,path=$dir/console" -device virtconsole,chardev=console \
    -chardev "file,id=stdout,path=$dir/stdout" -device virtserialport,chardev=stdout,name=stdout \
    -chardev "file,id=stderr,path=$dir/stderr" -device virtserialport,chardev=stderr,name=stderr \
    "$@" &
  echo $! >"$dir/pid"
  status=0
  wait "$!" || status=$?
  rm -f "$dir/pid"
  # A machine that has not come up may not have opened what is read.
  # shellcheck disable=SC2086
  if [ "$status" != 0 ] && [ ! -s "$dir/control/status" ]; then kill $readers 2>/dev/null || true; fi
  wait
  if [ "$status" = 0 ] && [ -s "$dir/control/status" ]; then exit "$(cat "$dir/control/status")"; fi
  tail -n 20 "$dir/console" >&2 || true
  if [ "$status" = 124 ]; then echo "vm: not finished after $seconds s" >&2; exit 124; fi
  fail "the machine ended without an answer ($status)"
}

# share TAG DIRECTORY FLAGS
share() {
  path=$(cd "$2" && pwd) || fail "there is no directory $2"
  case $path in *[,\ ]*) fail "$path has a comma or a blank in it" ;; esac
  echo "-virtfs local,path=$path,mount_tag=$1,security_model=none,multidevs=remap$3" >>"$dir/devices"
}

end() {
  if [ -s "$dir/pid" ]; then
    # shellcheck disable=SC2086
    kill "$(cat "$dir/pid")" $readers 2>/dev/null || true
    wait
  fi
  rm -rf "$dir"
}

# down ends each machine whose pid is still one.
down() {
  for dir in "$runs"/*; do
    [ -d "$dir" ] || continue
    if pid=$(cat "$dir/pid" 2>/dev/null) && tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -q "timeout .*$dir/console"; then
      kill "$pid" || true
    fi
    rm -rf "$dir"
  done
}

case ${1-} in
  build) build ;;
  run) build; shift; run "$@" ;;
  down) down ;;
  *)
    echo "usage: scripts/vm.sh build|run|down" >&2
    exit 2
    ;;
esac
