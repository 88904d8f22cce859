#!/usr/bin/env bash
# mypy, which knows what it found in another clone: its cache is also kept in the user's, and begun with that.
set -euo pipefail
kept=${XDG_CACHE_HOME:-$HOME/.cache}/toposeat-mypy
mkdir -p "$kept"
exec 9>"$kept/.lock"
flock 9
[ -e .mypy_cache ] || cp -r "$kept" .mypy_cache
flock -u 9
mypy
flock 9
cp -r .mypy_cache/. "$kept"
