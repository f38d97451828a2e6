#!/bin/sh
# Builds the agent as it ships: static, stripped, the same bytes each time.
#
#   sh agent/build.sh <amd64|arm64> <output> [release]
#
# The agent has a size to keep to, and half of it is the standard library's
# TLS. So nothing is inlined but where time goes: unpacking, reading and
# writing, the runtime. Of two patterns that match a package the later counts.
set -eu
if [ $# -lt 2 ]; then
  echo "usage: sh agent/build.sh <amd64|arm64> <output> [release]" >&2
  exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
case $2 in
  /*) output=$2 ;;
  *) output=$PWD/$2 ;;
esac
module=github.com/batleforc/batlehub-sandbox/agent
set -- "$1" "$output" "${3:-dev}" -gcflags=all=-l
for hot in github.com/batleforc/... github.com/klauspost/... github.com/ulikunitz/... \
  runtime internal/runtime/... internal/bytealg sync/... hash/... compress/... \
  bufio bytes io os syscall internal/poll; do
  set -- "$@" "-gcflags=$hot="
done
arch=$1 output=$2 release=$3
shift 3
cd "$here"
CGO_ENABLED=0 GOOS=linux GOARCH=$arch exec go build -trimpath -buildvcs=false "$@" \
  -ldflags "-s -w -buildid= -funcalign=16 -X $module.Release=$release" \
  -o "$output" ./cmd/batlehub-sandbox
