#!/bin/sh
# Runs every native fuzz target for a bounded time, and the go-fuzz entry
# points over the committed seeds.
set -eu
time=$1
cd "$(dirname "$0")/../fuzz"
# The archive targets make thousands of small trees.
if [ -d /dev/shm ] && [ -w /dev/shm ]; then export TMPDIR=/dev/shm; fi
for target in $(go test -list '^Fuzz' . | grep '^Fuzz'); do
  name=$(echo "$target" | sed 's/\([A-Z]\)/_\1/g; s/^_//' | tr '[:upper:]' '[:lower:]' | sed 's/rel_path/relpath/')
  printf '%s for %s: ' "$name" "$time"
  # pipefail is not in POSIX sh, so the status is taken from the command itself.
  # Coverage of a pipeline of goroutines differs from run to run, so minimizing
  # would never end: it is kept short.
  output=$(go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 1x . 2>&1) || { echo "$output"; exit 1; }
  echo "$output" | grep -E '^fuzz: elapsed' | tail -n 1 | sed 's/^fuzz: //'
done
go test -tags gofuzz -count=1 .
