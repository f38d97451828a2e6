#!/bin/sh
# Fetches the real packages of the suite's group F into a directory, once per
# machine, by their own clients. Without a registry it says so and goes on: the
# suite then reports the specs as not run.
set -eu
dir=$1
mkdir -p "$dir"

npm_package() { # NAME VERSION
  file=$dir/$1-$2.tgz
  [ -e "$file" ] && return
  command -v npm >/dev/null 2>&1 || { echo "packages: no npm, so no $1" >&2; return; }
  (cd "$dir" && npm pack --silent --ignore-scripts "$1@$2" >/dev/null 2>&1) || echo "packages: npm has no $1@$2 here" >&2
}

go_module() { # PATH VERSION
  file=$dir/$(echo "$1" | tr / -)-$2.zip
  [ -e "$file" ] && return
  zip=$(cd / && GOWORK=off GO111MODULE=on go mod download -json "$1@$2" 2>/dev/null | sed -n 's/^.*"Zip": "\(.*\)",$/\1/p')
  if [ -n "$zip" ]; then cp "$zip" "$file"; else echo "packages: the module proxy has no $1@$2 here" >&2; fi
}

npm_package left-pad 1.3.0
npm_package is-number 7.0.0
npm_package semver 7.6.3
npm_package express 4.19.2
npm_package chalk 5.3.0
npm_package lodash 4.17.21
go_module github.com/google/uuid v1.6.0
go_module github.com/spf13/pflag v1.0.9
go_module github.com/stretchr/testify v1.9.0
go_module github.com/BurntSushi/toml v1.3.2
go_module gopkg.in/yaml.v3 v3.0.1
go_module rsc.io/quote v1.5.2
