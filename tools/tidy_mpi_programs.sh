#!/usr/bin/env bash
# clang-tidy over the C programs that users compile with their own mpicc, which CMake does not know.
# Usage: tools/tidy_mpi_programs.sh JOBS   (the rest of the C and C++ code: make lint-native)
set -euo pipefail
cd "$(dirname "$0")/.."
printf '%s\0' microbench/*.c examples/*/*.c |
  xargs -0 -P "${1:-1}" -n 1 sh -c '
    found=$(clang-tidy --quiet "$0" -- -std=c11 -D_GNU_SOURCE -isystem .venv/mpi/mpich/include 2>&1) ||
      { printf "%s\n" "$found" | grep -E "error|warning"; exit 1; }'
