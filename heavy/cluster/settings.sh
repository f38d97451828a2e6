# What the scripts here share; read with `.` by a script that has set here.
# Everything that is built or run stands below $cluster, which may be deleted
# whenever no node is up.
# shellcheck shell=sh disable=SC2034,SC2154
cluster=${BATLEHUB_CLUSTER:-${XDG_CACHE_HOME:-$HOME/.cache}/batlehub-sandbox/cluster}
built=$cluster/built
run=$cluster/run # of the node that is up, and gone with it

components="kubernetes etcd policies dns gvisor image pause"

# component_dir NAME: where the component of the module NAME stands, by what it is
# made of. The recipe's number changes when build.sh makes something else of it.
component_dir() {
  hash=$(cd "$here/$1" && { echo recipe 1; cat ./*; } | sha256sum | cut -c 1-12)
  echo "$built/$1-$hash"
}

# The node: a network namespace of its own, and one link to this host.
netns=batlehub-cluster
link=batlehub-node
host_ip=10.200.0.1
node_ip=10.200.0.2
pod_net=10.244.0.0/24
service_net=10.96.0.0/16
api_ip=10.96.0.1
dns_ip=10.96.0.10

export KUBECONFIG="$run/pki/admin.kubeconfig"
PATH=$run/bin:$PATH:/usr/sbin:/sbin
