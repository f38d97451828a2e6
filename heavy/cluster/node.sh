#!/bin/sh
# The node: process 1 of a pid namespace, in mount, network and UTS namespaces of
# its own. It starts everything, then waits; its end ends all of it
# with every mount. scripts/cluster.sh starts it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=heavy/cluster/settings.sh
. "$here/settings.sh"

# A peer group of its own: no mount below leaks to this host.
mount --make-rshared /

# cgroups mounts /sys for this network namespace, and this host's v1 hierarchies
# one by one over it, without "unified": crun 1.8 refuses a layout of both. A
# host with v2 alone has just that. All of it is this mount namespace's.
cgroups() {
  mkdir -p "$run/cgroups"
  mount --rbind /sys/fs/cgroup "$run/cgroups"
  mount --make-rprivate "$run/cgroups"
  v2=$(stat -fc %T /sys/fs/cgroup)
  mount -t sysfs sysfs /sys
  if [ "$v2" = cgroup2fs ]; then
    mount --bind "$run/cgroups" /sys/fs/cgroup
  else
    mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup
    for hierarchy in "$run"/cgroups/*/; do
      name=$(basename "$hierarchy")
      if [ "$name" = unified ]; then continue; fi
      mkdir "/sys/fs/cgroup/$name"
      mount --bind "$hierarchy" "/sys/fs/cgroup/$name"
    done
    mount -o remount,ro /sys/fs/cgroup
  fi
  umount -R "$run/cgroups"
}

cgroups
mkdir -p "$run/log" "$run/etcd" "$run/kubelet" "$run/podlogs" "$run/containerd"
mount -t tmpfs -o mode=755 tmpfs /run # the lock of xtables, network namespaces, what containerd keeps
ip link set lo up
for key in net.ipv4.ip_forward net.bridge.bridge-nf-call-iptables net.bridge.bridge-nf-call-ip6tables; do
  # Without br_netfilter the last two are not there, and pods of one node are on
  # one bridge with no policy between them.
  sysctl -qw "$key=1" || echo "missing $key" >>"$run/status"
done

# An answer to every refusal below, and not to six at once and one a second: the
# kernel's limit makes the rest a silence, in which a connect waits a second.
sysctl -qw net.ipv4.icmp_ratelimit=0

# Whatever a pod begins is refused until the policies' enforcer has a chain for
# that pod, which marks what it lets pass. Without these two a pod is open for
# its first second.
for chain in FORWARD INPUT; do
  iptables -A $chain -s "$pod_net" -m conntrack --ctstate NEW -m comment --comment "no policy chain yet" -j REJECT
done

printf '127.0.0.1 localhost\n%s node1\n' "$node_ip" >"$run/hosts"
mount --bind "$run/hosts" /etc/hosts
echo "nameserver 127.0.0.53" >"$run/resolv.conf"

start() { # NAME COMMAND…
  name=$1
  shift
  "$@" >"$run/log/$name.log" 2>&1 &
}

# ready NAME SECONDS COMMAND…: asks until it is, and says so.
ready() {
  name=$1
  tries=$(($2 * 10))
  shift 2
  until "$@" >/dev/null 2>&1; do
    tries=$((tries - 1))
    if [ "$tries" -le 0 ]; then echo "timeout $name" >>"$run/status"; exit 1; fi
    sleep 0.1
  done
  echo "$name" >>"$run/status"
}

pki=$run/pki
etcd_url=http://127.0.0.1:2379
api() { curl -sf --cacert "$pki/ca.crt" --cert "$pki/admin.crt" --key "$pki/admin.key" "https://$node_ip:6443/readyz"; }
node_ready() { kubectl get node node1 -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}' | grep -q True; }
dns_ready() { kubectl -n kube-system get deploy coredns -o 'jsonpath={.status.readyReplicas}' | grep -q 1; }

# enforcer is kube-router's firewall alone, without routing and services. It
# ends while its node is not registered yet.
enforcer() {
  while :; do
    kube-router --kubeconfig="$pki/policies.kubeconfig" --hostname-override=node1 \
      --run-firewall=true --run-router=false --run-service-proxy=false \
      --service-cluster-ip-range="$service_net" --iptables-sync-period=1m --health-port=0 --v=1 || true
    sleep 0.3
  done
}

start containerd containerd -c "$run/conf/containerd.toml"
start etcd etcd --name node1 --data-dir "$run/etcd" --listen-client-urls $etcd_url --advertise-client-urls $etcd_url \
  --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
  --initial-cluster node1=http://127.0.0.1:2380 --unsafe-no-fsync
ready etcd 30 curl -sf $etcd_url/health
start kube-apiserver kube-apiserver --etcd-servers=$etcd_url --bind-address=0.0.0.0 --advertise-address="$node_ip" --secure-port=6443 \
  --service-cluster-ip-range="$service_net" --client-ca-file="$pki/ca.crt" \
  --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" \
  --service-account-key-file="$pki/sa.pub" --service-account-signing-key-file="$pki/sa.key" \
  --service-account-issuer=https://kubernetes.default.svc --kubelet-certificate-authority="$pki/ca.crt" \
  --kubelet-client-certificate="$pki/apiserver-kubelet-client.crt" --kubelet-client-key="$pki/apiserver-kubelet-client.key" \
  --kubelet-preferred-address-types=InternalIP --authorization-mode=Node,RBAC \
  --enable-admission-plugins=NodeRestriction --allow-privileged=true --v=1
ready apiserver 120 api
manager=$pki/controller-manager.kubeconfig
start kube-controller-manager kube-controller-manager --kubeconfig="$manager" --authentication-kubeconfig="$manager" \
  --authorization-kubeconfig="$manager" --leader-elect=false --use-service-account-credentials=true \
  --service-account-private-key-file="$pki/sa.key" --root-ca-file="$pki/ca.crt" \
  --cluster-signing-cert-file="$pki/ca.crt" --cluster-signing-key-file="$pki/ca.key" \
  --allocate-node-cidrs=true --cluster-cidr="$pod_net" --node-cidr-mask-size=24 --service-cluster-ip-range="$service_net"
scheduler=$pki/scheduler.kubeconfig
start kube-scheduler kube-scheduler --kubeconfig="$scheduler" --authentication-kubeconfig="$scheduler" \
  --authorization-kubeconfig="$scheduler" --leader-elect=false
ready containerd 60 ctr -a "$run/containerd.sock" version
for archive in "$run"/images/*.tar; do
  ctr -a "$run/containerd.sock" -n k8s.io images import "$archive" >>"$run/log/import.log" 2>&1
done
start kubelet kubelet --config="$run/conf/kubelet.yaml" --kubeconfig="$pki/kubelet.kubeconfig" --hostname-override=node1 \
  --node-ip="$node_ip" --root-dir="$run/kubelet" --cert-dir="$pki" --v=2
start kube-proxy kube-proxy --config="$run/conf/kube-proxy.yaml"
kubectl apply -f "$run/conf/addons.yaml" >"$run/log/addons.log" 2>&1
start policies enforcer
ready node 120 node_ready
ready dns 120 dns_ready
ready service-account 60 kubectl -n default get serviceaccount default
echo up >>"$run/status"
wait
