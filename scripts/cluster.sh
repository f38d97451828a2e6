#!/bin/sh
# A Kubernetes of one node on this host, for the tests that need a cluster.
#
#   scripts/cluster.sh up                    builds what is missing (once, about ten minutes) and starts the node
#   scripts/cluster.sh env                   prints the environment to use: eval "$(scripts/cluster.sh env)"
#   scripts/cluster.sh image DIRECTORY NAME  makes an image of a directory, brings it to the node, prints NAME@sha256:…
#   scripts/cluster.sh unload NAME…          takes images from the node
#   scripts/cluster.sh kubectl …             kubectl, as whoever may do everything
#   scripts/cluster.sh down                  ends the node and everything that up has made of this host
#
# With BATLEHUB_KIND=NAME in the environment the node is that of the kind cluster
# NAME, which up makes from kind-config.yaml: its images and a network plugin come
# from a registry. Otherwise it is heavy/cluster's own, of programs built from the
# Go module proxy and the distribution's containerd; it needs root.
#
# A cluster that can't be had is no failure of up: env then says why, in the words
# with which a test skips.
set -eu

scripts=$(cd "$(dirname "$0")" && pwd)
here=$scripts/../heavy/cluster
# shellcheck source=heavy/cluster/settings.sh
. "$here/settings.sh"
kind=${BATLEHUB_KIND-}
if [ -n "$kind" ]; then KUBECONFIG=$cluster/kind-$kind.kubeconfig; fi

have() { command -v "$1" >/dev/null 2>&1; }

why() {
  mkdir -p "$cluster"
  echo "$1" >"$cluster/why"
  echo "cluster: not run: $1" >&2
}

# ours: is the process of the pid file a node? It is one for all checkouts of
# this user's, and may have been started from another.
ours() {
  pid=$(cat "$run/pid" 2>/dev/null) || return 1
  [ -r "/proc/$pid/cmdline" ] && tr '\0' ' ' <"/proc/$pid/cmdline" | grep -q "unshare.*heavy/cluster/node.sh"
}

# missing: the programs of the distribution's that the node lacks.
missing() {
  for program in containerd ctr runc crun iptables ipset conntrack openssl curl ip nsenter sysctl; do
    have "$program" || echo "$program"
  done
  [ -n "$(cni)" ] || echo containernetworking-plugins
}

cni() {
  for dir in /usr/lib/cni /opt/cni/bin /usr/libexec/cni; do
    if [ -x "$dir/bridge" ]; then echo "$dir"; return; fi
  done
}

# image_of DIRECTORY NAME ARCHIVE [FLAG…]
image_of() {
  directory=$1 name=$2 archive=$3
  shift 3
  "$(component_dir image)/image" "$@" "$directory" "$name" "$archive"
}

# own_image COMPONENT PROGRAM USER: the image of one program that was built here.
own_image() {
  tree=$run/tree
  mkdir -p "$tree"
  cp "$(component_dir "$1")/$2" "$tree/$2"
  image_of "$tree" "cluster.local/$2" "$run/images/$2.tar" -user "$3" -entrypoint "/$2"
  rm -r "$tree"
}

# lay writes what the node is started from.
lay() {
  rm -rf "$run"
  mkdir -p "$run/bin" "$run/images" "$run/conf"
  for name in $components; do ln -s "$(component_dir "$name")"/* "$run/bin/"; done
  pause=$(own_image pause pause 65535:65535)
  dns=$(own_image dns coredns 0:0)
  cp -r "$here/conf/." "$run/conf"
  find "$run/conf" -type f -exec sed -i \
    -e "s#@run@#$run#g" -e "s#@pause@#$pause#" -e "s#@dns@#$dns#" -e "s#@cni@#$(cni)#" \
    -e "s#@runc@#$(command -v runc)#" -e "s#@crun@#$(command -v crun)#" \
    -e "s#@host_ip@#$host_ip#" -e "s#@node_ip@#$node_ip#" -e "s#@dns_ip@#$dns_ip#" -e "s#@pod_net@#$pod_net#" {} +
  sh "$here/pki.sh"
  # The kubelet sets these for the whole kernel.
  for key in vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops kernel.keys.root_maxkeys kernel.keys.root_maxbytes; do
    if value=$(sysctl -n "$key" 2>/dev/null); then echo "$key=$value"; fi
  done >"$run/sysctl.before"
}

# wire joins the node's network namespace to this host by one link, over which
# pods reach what listens here, and nothing beyond is translated for them.
wire() {
  ip netns add "$netns"
  ip link add "$link" type veth peer name eth0 netns "$netns"
  ip addr add "$host_ip/24" dev "$link"
  ip link set "$link" up
  ip -n "$netns" addr add "$node_ip/24" dev eth0
  ip -n "$netns" link set eth0 up
  ip -n "$netns" route add default via "$host_ip"
  ip route add "$pod_net" via "$node_ip" dev "$link"
}

up_own() {
  if [ "$(id -u)" != 0 ]; then why "a node of one's own needs root"; return 0; fi
  lacks=$(missing | tr '\n' ' ')
  if [ -n "$lacks" ]; then why "the host lacks ${lacks% } (scripts/setup.sh cluster)"; return 0; fi
  if ours && grep -q '^up$' "$run/status" 2>/dev/null; then return 0; fi
  down_own
  sh "$here/build.sh" 9>&- || { why "its programs can't be built here"; return 0; }
  lay
  wire
  # ip netns exec would take the cgroups' mounts away; nsenter does not.
  setsid nsenter --net="/run/netns/$netns" \
    unshare --mount --pid --uts --fork --kill-child --mount-proc sh -c "hostname node1; exec sh '$here/node.sh'" \
    >"$run/node.log" 2>&1 </dev/null 9>&- &
  echo $! >"$run/pid"
  tries=0
  until grep -q '^up$' "$run/status" 2>/dev/null; do
    tries=$((tries + 1))
    if [ "$tries" -gt 1200 ] || ! kill -0 "$(cat "$run/pid")" 2>/dev/null; then
      echo "cluster: the node did not come up (logs in $cluster/failed):" >&2
      cat "$run/status" "$run/node.log" >&2 || true
      rm -rf "$cluster/failed"
      cp -r "$run/log" "$cluster/failed" || true
      down_own
      why "the node does not come up here"
      return 0
    fi
    sleep 0.2
  done
}

down_own() {
  if ours; then
    # The child is process 1 of the namespaces.
    child=$(cat "/proc/$pid/task/$pid/children")
    # shellcheck disable=SC2086
    kill -9 $child "$pid" 2>/dev/null || true
    tries=0
    while [ "$tries" -lt 100 ] && { ours || [ -d "/proc/${child%% *}" ]; }; do tries=$((tries + 1)); sleep 0.1; done
  fi
  if [ ! -d "$run" ]; then return 0; fi
  if [ -s "$run/sysctl.before" ]; then
    # shellcheck disable=SC2046
    sysctl -qw $(cat "$run/sysctl.before") 2>/dev/null || true
  fi
  for group in /sys/fs/cgroup/kubepods /sys/fs/cgroup/*/kubepods; do
    if [ -d "$group" ]; then find "$group" -depth -type d -exec rmdir {} + || true; fi
  done
  # Both ends of the link go, with the routes over it; and with the namespace
  # every rule and address of the node's.
  ip link del "$link" 2>/dev/null || true
  ip netns del "$netns" 2>/dev/null || true
  rm -rf --one-file-system "$run"
}

up_kind() {
  if ! have kind || ! have docker; then why "kind and docker are not both installed"; return 0; fi
  mkdir -p "$cluster"
  if ! kind get clusters 2>/dev/null | grep -qx "$kind"; then
    kind create cluster --name "$kind" --config "$scripts/../kind-config.yaml" --kubeconfig "$KUBECONFIG" 9>&- ||
      { why "kind makes no cluster here"; return 0; }
  fi
}

# load ARCHIVE
load() {
  if [ -n "$kind" ]; then kind load image-archive "$1" --name "$kind" >&2
  else ctr -a "$run/containerd.sock" -n k8s.io images import "$1" >&2; fi
}

in_node() { # ctr's arguments
  if [ -n "$kind" ]; then docker exec "$kind-control-plane" ctr -n k8s.io "$@"
  else ctr -a "$run/containerd.sock" -n k8s.io "$@"; fi
}

lock() {
  mkdir -p "$cluster"
  exec 9>"$cluster/lock"
  if have flock; then flock 9; fi
}

case ${1-} in
  up)
    lock
    rm -rf "$cluster/why" "$cluster/failed"
    if [ -n "$kind" ]; then up_kind; else up_own; fi
    ;;
  env)
    if [ -e "$cluster/why" ]; then
      echo "export BATLEHUB_TEST_KUBECONFIG='not run: $(cat "$cluster/why")'"
    elif [ ! -s "$KUBECONFIG" ]; then
      echo "export BATLEHUB_TEST_KUBECONFIG='not run: scripts/cluster.sh up was not run'"
    else
      echo "export BATLEHUB_TEST_KUBECONFIG='$KUBECONFIG'"
    fi
    ;;
  image)
    if [ $# -ne 3 ]; then echo "usage: scripts/cluster.sh image DIRECTORY NAME" >&2; exit 2; fi
    if [ ! -d "$(component_dir image)" ]; then
      lock
      sh "$here/build.sh" image 9>&-
    fi
    temporary=$(mktemp -d)
    trap 'rm -rf "$temporary"' EXIT
    reference=$(image_of "$2" "$3" "$temporary/image.tar")
    load "$temporary/image.tar"
    echo "$reference"
    ;;
  unload)
    shift
    in_node images rm "$@" >/dev/null
    ;;
  kubectl)
    shift
    exec kubectl "$@"
    ;;
  down)
    [ -d "$cluster" ] || exit 0
    lock
    if [ -n "$kind" ]; then kind delete cluster --name "$kind" --kubeconfig "$KUBECONFIG"; rm -f "$KUBECONFIG"
    else down_own; fi
    ;;
  *)
    echo "usage: scripts/cluster.sh up|env|image|unload|kubectl|down" >&2
    exit 2
    ;;
esac
