#!/bin/sh
# Builds what the test cluster is made of, as far as it is not in the user's
# cache: about ten minutes on two cores from nothing, from the Go module proxy
# alone. Each component is one folder here, and stands in the cache under the
# hash of that folder, so that an older checkout and a newer one share a cache.
#
#   heavy/cluster/build.sh [COMPONENT…]   called by scripts/cluster.sh, which holds the lock
set -eu
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=heavy/cluster/settings.sh
. "$here/settings.sh"

export CGO_ENABLED=0 GOWORK=off GOFLAGS=-trimpath\ -buildvcs=false
unset GOEXPERIMENT

# component NAME: calls NAME OUT in NAME's module unless it stands. It builds in a
# directory of its own, which appears whole.
component() {
  out=$(component_dir "$1")
  [ ! -d "$out" ] || return 0
  echo "cluster: building $1, once" >&2
  mkdir -p "$built"
  new=$(mktemp -d "$built/new.XXXXXX")
  (cd "$here/$1" && "$1" "$new") || { rm -rf "$new"; echo "cluster: $1 can't be built here" >&2; exit 1; }
  chmod 755 "$new"
  mv "$new" "$out"
}

# program OUT PACKAGE [LDFLAGS]
program() { go build -ldflags "-s -w ${3-}" -o "$1" "$2"; }

kubernetes() {
  # A kubelet without its version refuses to be a node.
  version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
  minor=${version#v1.}
  base=k8s.io/component-base/version
  for name in kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl; do
    program "$1/$name" "k8s.io/kubernetes/cmd/$name" \
      "-X $base.gitVersion=$version -X $base.gitMajor=1 -X $base.gitMinor=${minor%%.*} -X $base.gitTreeState=clean -X k8s.io/client-go/pkg/version.gitVersion=$version"
  done
}

etcd() { program "$1/etcd" go.etcd.io/etcd/server/v3; }
policies() { program "$1/kube-router" github.com/cloudnativelabs/kube-router/v2/cmd/kube-router; }
dns() { program "$1/coredns" .; }

# gvisor builds runsc, and its containerd shim with two lines changed: an OOM
# score that a root without CAP_SYS_RESOURCE may set, and the address as
# containerd 1.6 wants it, bare instead of in JSON.
gvisor() {
  program "$1/runsc" gvisor.dev/gvisor/runsc
  work=$(mktemp -d)
  cp go.mod go.sum "$work"
  (
    cd "$work"
    # Vendoring takes what is imported: the tool lines are enough.
    go mod vendor
    change vendor/gvisor.dev/gvisor/pkg/shim/v1/manager.go 's/oomScoreMax = -999/oomScoreMax = 1/'
    change vendor/github.com/containerd/containerd/v2/pkg/shim/shim.go \
      's/data, err := json.Marshal(&params)/data, err := []byte(params.Address), error(nil); _ = json.Marshal/'
    GOFLAGS="$GOFLAGS -mod=vendor" program "$1/containerd-shim-runsc-v1" gvisor.dev/gvisor/shim
  ) || { rm -rf "$work"; return 1; }
  rm -rf "$work"
}

# change FILE EXPRESSION: an edit that finds nothing is an error.
change() {
  sed -i.before "$2" "$1"
  if cmp -s "$1" "$1.before"; then echo "cluster: nothing to change in $1" >&2; return 1; fi
}

image() { program "$1/image" .; }
pause() { program "$1/pause" .; }

# shellcheck disable=SC2086
if [ $# = 0 ]; then set -- $components; fi
for name; do component "$name"; done
