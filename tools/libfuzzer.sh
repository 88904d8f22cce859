#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The fuzz targets of fuzz/ on clang's libFuzzer: tools/libfuzzer.sh RUNS. What it finds to be new
# stays in build/fuzz/corpus. Says why, and succeeds, where there is no such clang.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=$1
tree=build/fuzz

# Prints a clang that can link for libFuzzer, as C and as C++.
find_clang() {
  local found each
  found=$(mktemp -d)
  trap 'rm -r "$found"' RETURN
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char *, unsigned long) { return 0; }' \
    >"$found/a.cc"
  for each in clang clang-{21,20,19,18,17,16,15,14}; do
    if "${each/clang/clang++}" -fsanitize=fuzzer -o "$found/a" "$found/a.cc" 2>/dev/null; then
      echo "$each"
      return
    fi
  done
}

clang=$(find_clang)
if [ -z "$clang" ]; then
  echo "no clang with libFuzzer (Debian: clang and libclang-rt-dev): its runs are left out"
  exit
fi
CC="$clang" CXX="${clang/clang/clang++}" cmake --preset fuzz --log-level=WARNING
cmake --build --preset fuzz
for seeds in fuzz/seeds/*; do
  target=${seeds##*/}
  mkdir -p "$tree/corpus/$target"
  echo "libFuzzer: $target, $runs runs"
  # Plans leak by design: their process becomes another program.
  ASAN_OPTIONS=detect_leaks=0 "$tree/fuzz/fuzz_$target" -runs="$runs" -max_len=8192 -verbosity=0 \
    -timeout=60 -rss_limit_mb=4096 -artifact_prefix="$tree/" "$tree/corpus/$target" "$seeds" \
    >"$tree/$target.log" 2>&1 || { tail -n 40 "$tree/$target.log"; exit 1; }
done
