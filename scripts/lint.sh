#!/bin/sh
# The checks of this project's own, beside golangci-lint.
set -eu
cd "$(dirname "$0")/.."
status=0
fail() {
  echo "lint: $*" >&2
  status=1
}

# A tidy go.mod per module, without the workspace's help.
for module in wire agent runtime worker conformance fuzz heavy; do
  GOWORK=off go -C "$module" mod tidy -diff >/dev/null 2>&1 || fail "$module/go.mod is not tidy: run 'GOWORK=off go -C $module mod tidy'"
done

# Scripts parse.
for script in task .ci/run scripts/*.sh heavy/cluster/*.sh heavy/vm/*.sh heavy/vm/init heavy/vm/guest; do
  sh -n "$script" 2>/dev/null || bash -n "$script" || fail "$script does not parse"
done

# Workflows parse, and their expressions, inputs and shell words are right.
# shellcheck and pyflakes would be found where they happen to be installed, and
# say different things on different hosts.
if actionlint=$(GOWORK=off go -C tools/actionlint tool -n actionlint); then
  "$actionlint" -shellcheck= -pyflakes= -oneline || fail "the workflows"
else
  fail "tools/actionlint does not build"
fi

# The chart, by Helm's own lint. Its schema, its renders and its README have tests.
go run ./heavy/cmd/chart lint -f heavy/internal/chart/testdata/release.yaml || fail "deploy/chart"

# A skipped test says why, in the words the report counts.
if git grep -nE 't\.Skip(f)?\(("")?\)|\.Skip\(""\)' -- '*_test.go'; then
  fail "a skip without its reason"
fi

exit $status
