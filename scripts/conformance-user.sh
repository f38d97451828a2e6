#!/bin/sh
# Runs the suites as an unprivileged user. As root it becomes uid 65534 with an
# empty environment and a home of its own; as a user it has nothing to add. The
# mutants are the plain run's: who runs the suite makes no difference to them.
set -eu
cd "$(dirname "$0")/.."
packages=$1
if [ "$(id -u)" != 0 ]; then
  echo "conformance:user: already an unprivileged user, the plain run was it"
  exit 0
fi
command -v setpriv >/dev/null 2>&1 || { echo "conformance:user: there is no setpriv; install util-linux" >&2; exit 1; }
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cp out/bin/sandbox-conformance out/bin/gitleaks "$home/"
cp "out/bin/batlehub-sandbox-linux-$(go env GOARCH)" "$home/agent"
cp -R "$packages" "$home/packages"
# The user has no Go and may not be able to read this checkout: what the suite
# builds is built for it, from a copy that it can read.
mkdir "$home/src" "$home/tmp"
cp -R go.work go.work.sum wire agent runtime worker conformance fuzz heavy "$home/src/"
out/bin/sandbox-conformance --prepare --agent "$home/agent" --source "$home/src/conformance" --cache "$home/cache" >/dev/null
chown -R 65534:65534 "$home"
chmod 711 "$home"
for runtime in none bwrap; do
  flags=
  [ "$runtime" != none ] || flags=--expect-no-walls
  # shellcheck disable=SC2086
  (cd / && exec setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs env -i \
    HOME="$home" PATH="$PATH" TMPDIR="$home/tmp" \
    "$home/sandbox-conformance" --runtime "$runtime" $flags --agent "$home/agent" --gitleaks "$home/gitleaks" \
    --packages "$home/packages" --mutants=false --no-build --source "$home/src/conformance" --cache "$home/cache" --out "$home/report")
done
mkdir -p out/conformance
for report in "$home"/report/*; do
  name=$(basename "$report")
  rm -rf "out/conformance/$name-user"
  cp -R "$report" "out/conformance/$name-user"
done
