#!/bin/sh
# Puts this machine into each state of the table of hosts that restrict user
# namespaces, one after the other, and writes what bwrap, the doctor and the runtime
# say there, as an ordinary user, below /out/STATE/.
#
#   restricted.sh BIN        BIN has sandboxctl, the agent and gitleaks
set -eu
bin=$1
profiles=/run/profiles
mkdir -p "$profiles" /opt/sandbox
printf 'abi <abi/4.0>,\ninclude <tunables/global>\nprofile denied /usr/bin/bwrap {\n  allow file,\n  allow mount,\n  allow umount,\n  allow pivot_root,\n  allow network,\n  allow signal,\n  allow userns,\n  audit deny capability,\n}\n' >"$profiles/denied"
cp "$bin/sandboxctl" "$bin/gitleaks" /usr/local/bin/
cp "$bin/batlehub-sandbox-linux-amd64" /usr/local/bin/batlehub-sandbox
sandboxctl tree --runtime bwrap gitleaks --file /usr/local/bin/gitleaks --command gitleaks >/dev/null
printf '[worker.sandbox]\nruntime = "bwrap"\n[scanners.gitleaks]\ncommand = "gitleaks"\n' >/run/config.toml

load() { apparmor_parser --skip-cache -a "$1"; }
unload() { apparmor_parser -R "$1"; }

# as_user OUT COMMAND…: what it printed, its status last.
as_user() {
  out=$1
  shift
  status=0
  (cd / && setpriv --reuid 1000 --regid 1000 --clear-groups env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/home/user "$@") \
    >"$out.stdout" 2>"$out.stderr" </dev/null || status=$?
  echo "$status" >"$out.status"
}

look() {
  dir=/out/$1
  mkdir -p "$dir"
  as_user "$dir/all" bwrap --unshare-all --ro-bind / / true
  as_user "$dir/user" bwrap --unshare-user --ro-bind / / true
  as_user "$dir/doctor" sandboxctl doctor --config /run/config.toml --format json
  as_user "$dir/probe" sandboxctl probe --config /run/config.toml
}

look unrestricted
insmod "$(find /usr/lib/modules -name ubuserns.ko)"
look no-profile
# What the doctor says to put there is what is put there.
sed -n 's/.*\(abi <abi.*}\) and then.*/\1/p' /out/no-profile/doctor.stdout | head -n 1 >"$profiles/bwrap"
load "$profiles/bwrap"
look bwrap-profile
unload "$profiles/bwrap"
load /usr/local/lib/vm/unprivileged_userns
look ubuntu
unload /usr/local/lib/vm/unprivileged_userns
rmmod ubuserns
load "$profiles/denied"
look capabilities-denied
unload "$profiles/denied"
echo 0 >/proc/sys/kernel/unprivileged_userns_clone
look clone-off
echo 1 >/proc/sys/kernel/unprivileged_userns_clone
echo 0 >/proc/sys/user/max_user_namespaces
look none-left
