#!/bin/sh
# The conformance suite over the crun runtime in the virtual machine, whose cgroups
# are v2: what out/bin and the caches hold goes in, reports come out.
#
#   heavy/vm/conformance.sh PROGRAM PACKAGES [FLAG…]     PROGRAM is crun or runc
#
# VM_SLOW (default 6) multiplies the suite's bounds, VM_SECONDS (default 7200)
# bounds the whole of it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
program=$1 packages=$2
shift 2
bin=$root/out/bin
agent=$bin/batlehub-sandbox-linux-amd64
# Inside is no Go: what the suite may build is built here, from the source at the
# path that it has inside as well.
cache=$(nice -n 15 "$bin/sandbox-conformance" --prepare --agent "$agent" --source "$root/conformance")
mkdir -p "$root/out/conformance"
VM_MEMORY=${VM_MEMORY:-4096} sh "$root/scripts/vm.sh" run --seconds "${VM_SECONDS:-7200}" \
  --in "$root=$root" --in "/in/cache=$cache" --in "/in/packages=$packages" --out "$root/out/conformance" -- \
  "$bin/sandbox-conformance" --runtime crun --program "$program" --slow "${VM_SLOW:-6}" \
  --agent "$agent" --gitleaks "$bin/gitleaks" --packages /in/packages \
  --no-build --source "$root/conformance" --cache /in/cache --out /out "$@"
