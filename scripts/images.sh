#!/bin/sh
# Builds the images of deploy/images with an engine of this host, and from the
# same images the trees that bwrap and crun take.
#
#   scripts/images.sh [podman|docker] [NAME…]    build (default: podman, and every image whose program can be had)
#   scripts/images.sh context NAME…              only prepare what a build reads, in out/images/context/NAME
#
# Nothing is pulled: every image is from scratch but guarddog and the worker,
# whose bases are named by GUARDDOG_BASE and WORKER_BASE. A scanner's program is
# taken from the variable of its name (TRIVY=/path/to/trivy) or else from
# scripts/tool.sh; GUARDDOG is a directory that "pip install --target" made.
#
# Results: out/images/NAME.json (name, digest, engine, every file), the image's
# archive in out/images/ENGINE/NAME.tar, the tree in out/rooms/NAME.
set -eu
cd "$(dirname "$0")/.."
umask 022

engine=podman
case ${1-} in podman | docker | context) engine=$1; shift ;; esac
rooms="gitleaks trivy syft yara clamav postmortem guarddog"
epoch=${SOURCE_DATE_EPOCH:-0}
tag=${TAG:-dev}
arch=${ARCH:-$(go env GOARCH)}
prefix=${PREFIX:-localhost/batlehub-sandbox-}
out=out/images
bin=out/bin

say() { echo "images: $*" >&2; }

# program prints where a scanner's program is, or fails with the reason.
program() { # NAME
  variable=$(echo "$1" | tr '[:lower:]' '[:upper:]')
  eval "named=\${$variable-}"
  # shellcheck disable=SC2154
  if [ -n "$named" ]; then
    [ -e "$named" ] || { say "$variable=$named is not there"; return 1; }
    echo "$named"
    return
  fi
  case $1 in
    yara) command -v yara || { say "no yara here; install the package yara, or set YARA"; return 1; } ;;
    clamav) command -v clamscan || { say "no clamscan here; install the package clamav, or set CLAMAV"; return 1; } ;;
    postmortem | guarddog) say "$1 is in no place that this script knows; set $variable"; return 1 ;;
    *)
      if [ "$1" = gitleaks ] && [ -x $bin/gitleaks ]; then echo $bin/gitleaks; return; fi
      [ -e scripts/tool.sh ] || { say "no $1 here; set $variable"; return 1; }
      sh scripts/tool.sh "$1"
      ;;
  esac
}

# mountpoints makes what a read-only root can't be given later.
mountpoints() { # DIR BASE
  mkdir -p "$1/bundle" "$1/proc" "$1/dev" "$1/etc" "$1/usr/bin" "$1/usr/local/bin" "$1/work"
  chmod 1777 "$1/work"
  # Another base has a /tmp of its own, which no copy can turn into a link.
  [ "$2" != scratch ] || ln -s work/tmp "$1/tmp"
}

# libraries makes a tree of a program and what it is linked with. The agent and
# the mount points of it are left to the layers that every image shares.
libraries() { # PROGRAM TREE
  rm -rf "$2.room"
  $bin/sandboxctl tree --libraries --agent "$bin/batlehub-sandbox-linux-$arch" --output "$2.room" --file "$1" >/dev/null
  (cd "$2.room" && rm -rf bundle out proc dev etc work tmp usr/local/bin/batlehub-sandbox && rmdir usr/bin)
  mv "$2.room" "$2"
}

context() { # NAME
  dir=$out/context/$1
  rm -rf "$dir"
  mkdir -p "$dir"
  case $1 in
    guarddog) mountpoints "$dir/mountpoints" other ;;
    worker) mountpoints "$dir/mountpoints" "${WORKER_BASE:-scratch}" ;;
    *) mountpoints "$dir/mountpoints" scratch ;;
  esac
  install -m 755 "$bin/batlehub-sandbox-linux-$arch" "$dir/batlehub-sandbox"
  case $1 in
    agent) ;;
    yara | clamav)
      libraries "$(program "$1")" "$dir/tree"
      cp -R "deploy/images/data/$1" "$dir/data"
      chmod -R u=rwX,go=rX "$dir/data"
      ;;
    guarddog)
      cp -R "$(program guarddog)" "$dir/guarddog"
      chmod -R u=rwX,go=rX "$dir/guarddog"
      mkdir "$dir/bin"
      install -m 755 deploy/images/guarddog.py "$dir/bin/guarddog"
      ;;
    worker)
      install -m 755 $bin/sandboxctl "$dir/sandboxctl"
      mkdir "$dir/links"
      for room in gitleaks trivy syft postmortem; do
        ! built "$room" || ln -s "/opt/sandbox/$room/usr/local/bin/$room" "$dir/links/$room"
      done
      ;;
    *) install -m 755 "$(program "$1")" "$dir/$1" ;;
  esac
  # An image's layers carry times: one time for all makes two builds alike.
  find "$dir" -exec touch -h -d "@$epoch" {} +
}

# containerfile prints the file to build from: the worker's without the
# scanners whose image there is not.
containerfile() { # NAME
  case $1 in
    agent) cat deploy/images/Containerfile.agent ;;
    worker)
      script=
      for room in $rooms; do
        built "$room" || script="$script
/^FROM .* AS $room\$/d
/^COPY --from=$room /d"
      done
      sed "$script" deploy/images/Containerfile.worker
      ;;
    *) cat "deploy/images/Containerfile.sandbox-$1" ;;
  esac
}

# built says whether the engine has a scanner's image.
built() { "$engine" image inspect "$prefix$1:$tag" >/dev/null 2>&1; }

build() { # NAME
  name=$1
  set --
  case $name in
    guarddog) set -- --build-arg "BASE=${GUARDDOG_BASE-}" ;;
    worker)
      set -- --build-arg "BASE=${WORKER_BASE:-scratch}" --build-arg "PREFIX=$prefix" --build-arg "TAG=$tag" \
        --build-arg "BATLEHUB_IMAGE=${BATLEHUB_IMAGE:-${prefix}worker:$tag}"
      ;;
  esac
  containerfile "$name" >"$out/Containerfile.$name"
  [ -z "${NO_CACHE-}" ] || set -- "$@" --no-cache
  set -- "$@" -f "$out/Containerfile.$name" -t "$prefix$name:$tag" "$out/context/$name"
  if [ "$engine" = podman ]; then
    podman build --quiet --pull=never --timestamp "$epoch" "$@" >/dev/null
  else
    # The builder of Docker 20.10 without BuildKit: it needs no image of its own.
    DOCKER_BUILDKIT=0 docker build --quiet "$@" >/dev/null 2>"$out/build.log" || { cat "$out/build.log" >&2; return 1; }
  fi
}

# record checks the built image's content, writes down what it is, and makes
# the scanner's tree from it.
record() { # NAME
  archive=$out/$engine/$1.tar
  rm -f "$archive"
  digest=
  if [ "$engine" = podman ]; then
    podman save --quiet --format docker-archive -o "$archive" "$prefix$1:$tag"
    digest=$(podman image inspect --format '{{.Digest}}' "$prefix$1:$tag")
    version=$(podman version --format '{{.Client.Version}}')
  else
    docker save -o "$archive" "$prefix$1:$tag"
    version=$(docker version --format '{{.Server.Version}}')
  fi
  go run ./heavy/cmd/images --archive "$archive" --name "$1" --tag "$prefix$1:$tag" --digest "$digest" \
    --engine "$engine" --engine-version "$version" --out "$out/$engine/$1.json" \
    --allow "deploy/images/allow/common.txt,deploy/images/allow/$1.txt"
  cp "$out/$engine/$1.json" "$out/$1.json"
  case $1 in
    agent | worker) return ;;
    clamav) command=clamscan ;;
    *) command=$1 ;;
  esac
  $bin/sandboxctl tree --force --agent "$bin/batlehub-sandbox-linux-$arch" --output "out/rooms/$1" --image "$archive" --command "$command"
}

for file in sandboxctl "batlehub-sandbox-linux-$arch"; do
  [ -x "$bin/$file" ] || { say "no $bin/$file; run ./task build"; exit 1; }
done
mkdir -p "$out"
if [ "$engine" = context ]; then
  for name in "$@"; do context "$name"; done
  exit 0
fi

command -v "$engine" >/dev/null 2>&1 || { say "not built: no $engine here"; exit 1; }
if [ -z "${CONTAINERS_CONF-}${DOCKER_HOST-}" ] && [ -z "${ENGINE_AS_IT_IS-}" ] && [ -e scripts/engines.sh ]; then
  eval "$(sh scripts/engines.sh env)"
fi
mkdir -p "$out/$engine" out/rooms

all=${*:-agent $rooms worker}
for name in $all; do
  case " agent $rooms worker " in
    *" $name "*) ;;
    *) say "no image is called $name; there are: agent $rooms worker"; exit 2 ;;
  esac
  # Without a list, what can't be had is said and left out.
  if [ $# = 0 ]; then
    case $name in
      agent | worker) ;;
      guarddog) if [ -z "${GUARDDOG-}" ] || [ -z "${GUARDDOG_BASE-}" ]; then say "not built: guarddog: set GUARDDOG and GUARDDOG_BASE"; continue; fi ;;
      *) program "$name" >/dev/null || { say "not built: $name"; continue; } ;;
    esac
  fi
  context "$name"
  build "$name"
  record "$name"
done
