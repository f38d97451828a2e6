#!/bin/sh
# Prints the path of a program that tests use, built from its pinned version in
# the Go module proxy when it is not in the user's cache yet.
#
#   scripts/tool.sh minio|versitygw|trivy|syft|gitleaks|runsc
#
# Nothing here ships. A build can be asked for by several at once: each is done
# by one, in a directory of its own, and appears whole.
set -eu

experiment=
case ${1-} in
  minio) package=github.com/minio/minio version=v0.0.0-20260212201848-7aac2a2c5b7c ;;
  versitygw) package=github.com/versity/versitygw/cmd/versitygw version=v1.8.0 ;;
  trivy) package=github.com/aquasecurity/trivy/cmd/trivy version=v0.74.0 experiment=jsonv2 ;;
  syft) package=github.com/anchore/syft/cmd/syft version=v1.57.1 ;;
  gitleaks) package=github.com/zricethezav/gitleaks/v8 version=v8.30.1 ;;
  runsc) package=gvisor.dev/gvisor/runsc version=v0.0.0-20260905035102-160fafc42237 ;;
  *)
    echo "usage: scripts/tool.sh minio|versitygw|trivy|syft|gitleaks|runsc" >&2
    exit 2
    ;;
esac
name=$1
tools=${XDG_CACHE_HOME:-$HOME/.cache}/batlehub-sandbox/tools
dir=$tools/$name-$version
tool=$dir/$name

if [ -x "$tool" ]; then
  echo "$tool"
  exit 0
fi
command -v go >/dev/null 2>&1 || { echo "tool: no $name in the cache, and no go to build it with" >&2; exit 1; }

mkdir -p "$dir"
# Whoever comes second waits for the first, and finds it built.
exec 9>"$dir/lock"
if command -v flock >/dev/null 2>&1; then flock 9; fi
if [ ! -x "$tool" ]; then
  echo "tool: building $name $version, once; this can take minutes" >&2
  new=$(mktemp -d "$dir/new.XXXXXX")
  trap 'rm -rf "$new"' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  # Outside the workspace and of any module: the version alone decides.
  (
    cd "$new"
    export GOWORK=off GOFLAGS= GO111MODULE=on GOBIN="$new" CGO_ENABLED=0
    if [ -n "$experiment" ]; then export GOEXPERIMENT=$experiment; fi
    go install -trimpath -ldflags '-s -w' "$package@$version"
  ) >&2 9>&- || { echo "tool: $package@$version can't be built here" >&2; exit 1; }
  # A module's last element may be its version (…/v8).
  for built in "$new"/*; do mv "$built" "$tool"; done
fi
echo "$tool"
