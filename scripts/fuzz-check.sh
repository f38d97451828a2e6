#!/bin/sh
# Runs every native fuzz target for a bounded time, and the go-fuzz entry
# points over the committed seeds.
set -eu
time=$1
cd "$(dirname "$0")/../fuzz"
for target in $(go test -list '^Fuzz' . | grep '^Fuzz'); do
  printf 'fuzz %s for %s\n' "$target" "$time"
  go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" . | tail -n 1
done
go test -tags gofuzz -count=1 .
