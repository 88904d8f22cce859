#!/usr/bin/env bash
# clang-tidy over the C programs that an MPI's own compiler makes, which CMake does not know.
# Usage: tools/tidy_mpi_programs.sh JOBS   (the rest of the C and C++ code: make lint-native)
set -euo pipefail
cd "$(dirname "$0")/.."

# tidy JOBS HEADERS SOURCE...
tidy() {
  printf '%s\0' "${@:3}" |
    headers=$2 xargs -0 -P "$1" -n 1 sh -c '
      found=$(clang-tidy --quiet "$0" -- -std=c11 -D_GNU_SOURCE -isystem "$headers" 2>&1) ||
        { printf "%s\n" "$found" | grep -E "error|warning"; exit 1; }'
}

tidy "${1:-1}" .venv/mpi/mpich/include microbench/*.c examples/*/*.c benchmarks/*.c

# For SimGrid's simulator, with what only its MPI has.
smpi=$(printf '#include <smpi/mpi.h>\n' | cc -x c -M - 2>/dev/null | tr ' ' '\n' | grep '/smpi/mpi\.h$') ||
  { echo "SimGrid's headers are not here: smpi_schedule.c is not checked" >&2; exit 0; }
tidy 1 "$(dirname "$smpi")" benchmarks/referee/smpi_schedule.c
