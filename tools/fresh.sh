#!/usr/bin/env bash
# README's commands where nothing is: tools/fresh.sh [bookworm] [trixie], as root.
# Copies an empty Debian, clones HEAD there and runs `make demo`, `make test` and `pip install .` with that
# Debian's Python, pip, compilers and CMake; only where packages come from is this machine's. There is no ../shared.
# What a Debian leaves is in build/fresh until its next run: the log, and the whole root unless all passed.
set -euo pipefail
cd "$(dirname "$0")/.."
suites=("$@")
[ $# -gt 0 ] || suites=(bookworm trixie)

say() { printf 'fresh: %s\n' "$*"; }

registry_of_host() { # $1: root; copy what pip and TLS are told on this machine into it
  cp -L /etc/resolv.conf /etc/hosts "$1/etc/"
  mkdir -p "$1/etc/xdg" "$1/root/.config"
  cp -rL /etc/pip.conf "$1/etc/" 2>/dev/null || :
  cp -rL /etc/xdg/pip "$1/etc/xdg/" 2>/dev/null || :
  cp -rL ~/.config/pip "$1/root/.config/" 2>/dev/null || :
  cp -rL ~/.pip "$1/root/" 2>/dev/null || :
  cp -L /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/" 2>/dev/null || :
}

local_packages() { # folders of this machine that pip takes packages from; an index's files lie beside its pages
  cat /etc/pip.conf /etc/xdg/pip/pip.conf ~/.config/pip/pip.conf ~/.pip/pip.conf <(env | grep '^PIP_') 2>/dev/null |
    grep -oE '(^|[ =])(file://)?/[^ ]+' | sed -E 's/^[ =]*//; s/^file:\/\/(.*)\/[^/]+\/?$/\1/' | sort -u |
    while read -r folder; do if [ -d "$folder" ]; then printf '%s\n' "$folder"; fi; done
}

variables() { # what pip, apt and TLS are told by variables here
  env -0 | grep -zE '^(PIP_|SSL_CERT_|REQUESTS_CA_BUNDLE=|([Hh][Tt][Tt][Pp][Ss]?|[Nn][Oo])_[Pp][Rr][Oo][Xx][Yy]=)' || :
}

inside() { # $1: root, then a script for its shell, with mounts and processes of its own
  local folders=() handed=()
  mapfile -t folders < <(local_packages)
  mapfile -d '' -t handed < <(variables)
  # shellcheck disable=SC2016 # a script for the inner shell
  unshare --mount --pid --fork --kill-child --mount-proc="$1/proc" bash -euc '
    root=$1 script=$2 count=$3
    shift 3
    mount -t sysfs sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
    for folder in "${@:1:count}"; do
      mkdir -p "$root$folder"
      mount --bind "$folder" "$root$folder"
      mount -o remount,bind,ro "$root$folder"
    done
    shift "$count"
    exec chroot "$root" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@" \
      bash -euo pipefail -c "cd; [ ! -d toposeat ] || cd toposeat; $script
exit 0 # a shell, which reaps what has lost its parent, stays the first process"' \
    bash "$1" "$2" "${#folders[@]}" "${folders[@]}" "${handed[@]}" </dev/null
}

step() { # $1: root, $2: log, then a name and a script; says how it ended
  local begun=$SECONDS exit=0
  inside "$1" "$4" >>"$2" 2>&1 || exit=$?
  say "  $3: exit $exit after $(((SECONDS - begun) / 60)) minutes"
  return "$exit"
}

count() { # $1: log, $2: word; what all test runners counted
  grep -oE "[0-9]+ $2" "$1" | awk '{ sum += $1 } END { print sum + 0 }'
}

one() { # $1: suite; says how it went, and fails if anything did
  local empty root=$PWD/build/fresh/$1 log=$PWD/build/fresh/$1.log passed=yes
  empty=$(tools/empty_debian.sh "$1") || return 1
  rm -rf "$root"
  mkdir -p "$PWD/build/fresh"
  cp -a "$empty" "$root" || return 1
  registry_of_host "$root"
  git bundle create --quiet "$root/root/toposeat.bundle" HEAD || return 1
  : >"$log"
  say "$1: $(git rev-parse --short HEAD); all output is in $log"
  step "$root" "$log" "git clone" 'git clone --quiet -c advice.detachedHead=false toposeat.bundle toposeat' || return 1
  step "$root" "$log" "make demo" 'make demo' || passed=no
  step "$root" "$log" "make test" 'make test' || passed=no
  step "$root" "$log" "pip install ." 'apt-get install -y -qq --no-install-recommends cmake ninja-build
    python3 -m venv ../own; ../own/bin/pip install --quiet .; cd /; ~/own/bin/toposeat map stencil3d:2x2x4 -t k80-16' ||
    passed=no
  say "$(inside "$root" '. /etc/os-release
    first() { grep -oE "[0-9]+\.[0-9.]+" | head -n 1; }
    printf "%s (%s): Python %s, pip %s, CMake %s, GCC %s, Open MPI %s, MPICH %s" "$PRETTY_NAME" "$(cat /etc/debian_version)" \
      "$(python3 -V | first)" "$(../own/bin/pip --version | first)" "$(cmake --version | first)" "$(gcc -dumpfullversion)" \
      "$(mpirun.openmpi --version | first)" "$(mpirun.mpich --version | first)"' 2>>"$log")"
  say "$1: $(count "$log" passed) passed, $(count "$log" failed) failed, $(count "$log" skipped) skipped; all good: $passed"
  [ "$passed" = yes ] && rm -rf "$root"
}

status=0
for suite in "${suites[@]}"; do one "$suite" || status=1; done
exit "$status"
