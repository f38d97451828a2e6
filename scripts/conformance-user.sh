#!/bin/sh
# Runs the suites as an unprivileged user. As root it becomes uid 65534 with an
# empty environment and a home of its own; as a user it has nothing to add.
set -eu
cd "$(dirname "$0")/.."
if [ "$(id -u)" != 0 ]; then
  echo "conformance:user: already an unprivileged user, the plain run was it"
  exit 0
fi
command -v setpriv >/dev/null 2>&1 || { echo "conformance:user: not run: no setpriv" >&2; exit 1; }
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT INT TERM
cp out/bin/sandbox-conformance out/bin/gitleaks "$home/"
cp "out/bin/batlehub-sandbox-linux-$(go env GOARCH)" "$home/agent"
chown -R 65534:65534 "$home"
chmod 711 "$home"
for runtime in none bwrap; do
  flags=
  [ "$runtime" != none ] || flags=--expect-no-walls
  # shellcheck disable=SC2086
  (cd / && setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs env -i \
    HOME="$home" PATH="$PATH" TMPDIR="$home" GOCACHE="$home/go-build" GOFLAGS=-mod=mod \
    "$home/sandbox-conformance" --runtime "$runtime" --agent "$home/agent" --gitleaks "$home/gitleaks" \
    --out "$home/report" $flags)
done
for report in "$home"/report/*; do
  name=$(basename "$report")
  rm -rf "out/conformance/$name-user"
  cp -R "$report" "out/conformance/$name-user"
done
