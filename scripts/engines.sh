#!/bin/sh
# Container engines for the tests that need one.
#
#   scripts/engines.sh up   [podman|docker|remap|rootless]   starts what is missing; all without a name
#   scripts/engines.sh env  [podman|docker|remap|rootless]   prints the environment to use: eval "$(scripts/engines.sh env)"
#   scripts/engines.sh down [podman|docker|remap|rootless]   ends what up has started
#
# An engine that works already is used as it is. Otherwise root gets a dockerd
# with everything below one directory (BATLEHUB_ENGINES), and podman a
# containers.conf for hosts on which its defaults fail: without systemd, with
# cgroup v1, or with low hard limits. remap is a dockerd with userns-remap, in
# a network namespace of its own, for the tests of that alone. rootless is a user
# with subordinate ids, as which root's tests run rootless podman.
#
# An engine that can't be had is no failure: env then says why, in the words
# with which a test skips.
set -eu

verb=${1-}
only=${2-}
base=${BATLEHUB_ENGINES-}
if [ -z "$base" ]; then
  # Below root's home no remapped uid could reach its files.
  if [ "$(id -u)" = 0 ]; then base=/var/cache/batlehub-sandbox/engines
  else base=${XDG_CACHE_HOME:-$HOME/.cache}/batlehub-sandbox/engines; fi
fi
bridge=batlehub0

wanted() { [ -z "$only" ] || [ "$only" = "$1" ]; }
have() { command -v "$1" >/dev/null 2>&1; }
root() { [ "$(id -u)" = 0 ]; }

# ask DOCKER_HOST: does a daemon answer there? An empty one is docker's default.
ask() {
  if [ -n "$1" ]; then DOCKER_HOST=$1 timeout 20 docker version --format '{{.Server.Version}}' >/dev/null 2>&1
  else (unset DOCKER_HOST; timeout 20 docker version --format '{{.Server.Version}}' >/dev/null 2>&1); fi
}

sock() { echo "unix://$base/$1/sock"; }

# ours NAME: is the process of NAME's pid file the daemon that was started here?
ours() {
  pid=$(cat "$base/$1/pid" 2>/dev/null) || return 1
  tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -q -- "--pidfile $base/$1/pid"
}

# start NAME FLAGS…: a dockerd below $base/NAME, waited for.
start() {
  name=$1
  shift
  dir=$base/$name
  mkdir -p "$dir"
  if ours "$name" && ask "$(sock "$name")"; then return 0; fi
  rm -f "$dir/sock" "$dir/pid"
  setsid "$@" --data-root "$dir/data" --exec-root "$dir/exec" --pidfile "$dir/pid" -H "$(sock "$name")" \
    >"$dir/log" 2>&1 </dev/null 9>&- &
  child=$!
  tries=0
  while ! ask "$(sock "$name")"; do
    tries=$((tries + 1))
    if [ "$tries" -gt 60 ] || ! kill -0 "$child" 2>/dev/null; then
      echo "engines: dockerd ($name) did not come up:" >&2
      tail -n 5 "$dir/log" >&2
      return 1
    fi
    sleep 0.5
  done
}

up_docker() {
  if ! have docker; then why docker "docker is not installed"; return 0; fi
  if ask "${DOCKER_HOST-}"; then rm -f "$base/docker/why"; return 0; fi
  if ! root || ! have dockerd; then why docker "no docker daemon answers, and there is none that could be started"; return 0; fi
  # A bridge of our own: two daemons take each other's docker0 away.
  if ! ip link show "$bridge" >/dev/null 2>&1; then
    ip link add name "$bridge" type bridge
    ip addr add 10.212.0.1/24 dev "$bridge"
    ip link set "$bridge" up
  fi
  if start docker dockerd --bridge "$bridge"; then rm -f "$base/docker/why"; else why docker "dockerd does not start here"; fi
}

up_remap() {
  if ! root || ! have dockerd || ! have docker || ! have unshare; then why remap "no dockerd that could be started"; return 0; fi
  subids dockremap 1879048192 65536
  id dockremap >/dev/null 2>&1 || useradd --system --no-create-home --shell /usr/sbin/nologin dockremap
  if start remap unshare --net dockerd --bridge none --iptables=false --userns-remap dockremap; then rm -f "$base/remap/why"
  else why remap "dockerd with userns-remap does not start here"; fi
}

rootless_user=batlehub-rootless

up_rootless() {
  if ! root || ! have podman || ! have newuidmap || ! have useradd; then
    why rootless "no podman with newuidmap that could be run as another user"
    return 0
  fi
  mkdir -p "$base/rootless"
  rm -f "$base/rootless/why"
  id "$rootless_user" >/dev/null 2>&1 || useradd --system --no-create-home --shell /usr/sbin/nologin "$rootless_user"
  # The user's own id, and one container's of --userns auto at a time or more.
  subids "$rootless_user" 1610612736 262144
}

up_podman() {
  if ! have podman; then why podman "podman is not installed"; return 0; fi
  mkdir -p "$base/podman"
  rm -f "$base/podman/why"
  if root; then
    # What --userns auto takes its ids from.
    subids containers 2147483647 2147483648
    propagate
  fi
  conf=$base/podman/containers.conf
  unified=$(stat -fc %T /sys/fs/cgroup 2>/dev/null || true)
  if [ -d /run/systemd/system ] && [ "$unified" = cgroup2fs ]; then
    rm -f "$conf"
    return 0
  fi
  new=$(mktemp "$conf.XXXXXX")
  {
    echo '[containers]'
    echo "default_ulimits = [\"nofile=$(limit -Hn 20000):$(limit -Hn 20000)\", \"nproc=$(limit -Hu 4096):$(limit -Hu 4096)\"]"
    echo '[engine]'
    if [ ! -d /run/systemd/system ]; then
      echo 'cgroup_manager = "cgroupfs"'
      echo 'events_logger = "file"'
    fi
    # crun 1.8 refuses hosts with both cgroup versions.
    if [ "$unified" != cgroup2fs ] && have runc; then echo 'runtime = "runc"'; fi
  } >"$new"
  chmod 644 "$new"
  mv "$new" "$conf"
}

# propagate makes podman's mounts of network namespaces seen by its own helpers,
# where the root mount is not shared. Other programs do the same to it.
propagate() {
  if ! have findmnt; then return 0; fi
  case $(findmnt --noheadings --output PROPAGATION --target /run/netns 2>/dev/null || findmnt --noheadings --output PROPAGATION --target /run) in
    *shared*) return 0 ;;
  esac
  mkdir -p /run/netns
  mount --rbind /run/netns /run/netns
  mount --make-shared /run/netns
}

# limit FLAG MOST: a hard limit as a number, or MOST if it is higher or sh does not
# know it. Podman's own default is above what many a worker may have, and a
# rootless one may have less than root.
limit() {
  n=$(bash -c "ulimit $1" 2>/dev/null || true)
  case $n in '' | *[!0-9]*) n=$2 ;; esac
  if [ "$n" -gt "$2" ]; then n=$2; fi
  echo "$n"
}

# subids USER FIRST COUNT: a range in /etc/subuid and /etc/subgid.
subids() {
  for file in /etc/subuid /etc/subgid; do
    grep -q "^$1:" "$file" 2>/dev/null || echo "$1:$2:$3" >>"$file"
  done
}

why() {
  mkdir -p "$base/$1"
  echo "$2" >"$base/$1/why"
  echo "engines: not run: $2" >&2
}

# environment NAME VARIABLE: prints VARIABLE=1, or the reason why not.
environment() {
  if [ -e "$base/$1/why" ]; then echo "export $2='not run: $(cat "$base/$1/why")'"; return 1; fi
  if [ ! -d "$base/$1" ] && [ "$1" != docker ]; then echo "export $2='not run: scripts/engines.sh up $1 was not run'"; return 1; fi
  echo "export $2=1"
}

down() {
  ours "$1" || return 0
  kill "$pid"
  tries=0
  while ours "$1" && [ "$tries" -lt 60 ]; do tries=$((tries + 1)); sleep 0.5; done
  if ours "$1"; then kill -9 "$pid"; fi
  rm -f "$base/$1/pid" "$base/$1/sock"
}

case $verb in
  up)
    mkdir -p "$base"
    exec 9>"$base/lock"
    if have flock; then flock 9; fi
    if wanted podman; then up_podman; fi
    if wanted docker; then up_docker; fi
    if wanted remap; then up_remap; fi
    if wanted rootless; then up_rootless; fi
    ;;
  env)
    if wanted podman && environment podman BATLEHUB_TEST_PODMAN && [ -e "$base/podman/containers.conf" ]; then
      echo "export CONTAINERS_CONF='$base/podman/containers.conf'"
    fi
    if wanted docker && environment docker BATLEHUB_TEST_DOCKER; then
      if ours docker; then echo "export DOCKER_HOST='$(sock docker)'"
      elif [ -n "${DOCKER_HOST-}" ]; then echo "export DOCKER_HOST='$DOCKER_HOST'"; fi
    fi
    if wanted remap && environment remap BATLEHUB_TEST_DOCKER_REMAP; then
      echo "export BATLEHUB_TEST_DOCKER_REMAP_HOST='$(sock remap)'"
    fi
    if wanted rootless && environment rootless BATLEHUB_TEST_PODMAN_ROOTLESS; then
      echo "export BATLEHUB_TEST_PODMAN_ROOTLESS_USER='$rootless_user'"
    fi
    ;;
  down)
    [ -d "$base" ] || exit 0
    exec 9>"$base/lock"
    if have flock; then flock 9; fi
    if wanted docker; then
      down docker
      if root && have ip && ip link show "$bridge" >/dev/null 2>&1; then ip link del "$bridge"; fi
    fi
    if wanted remap; then down remap; fi
    ;;
  *)
    echo "usage: scripts/engines.sh up|env|down [podman|docker|remap|rootless]" >&2
    exit 2
    ;;
esac
