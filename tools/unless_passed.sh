#!/usr/bin/env bash
# Run a command unless it has passed on these files: tools/unless_passed.sh NAME PATH... -- COMMAND...
# What decides is the text of all files there, but for those that git ignores, the compilers, their flags and the
# command.
# That it passed is kept in the user's cache, where another clone finds it; FORCE=1 runs it all the same.
set -euo pipefail
name=$1
shift
paths=()
while [ "$1" != -- ]; do paths+=("$1") && shift; done
shift
list() { git ls-files -z --cached --others --exclude-standard -- "${paths[@]}" tools/unless_passed.sh; }
digest() {
  list | sort -zu | xargs -0 sha256sum 2>&1 || : # of a file that was removed it says so
  { "${CC:-cc}" -v && "${CXX:-c++}" -v; } 2>&1
  printf '%s\n' "$@" "${CFLAGS:-}" "${CXXFLAGS:-}" "${LDFLAGS:-}"
}
list >/dev/null || exec "$@" # git cannot say
passed=${XDG_CACHE_HOME:-$HOME/.cache}/toposeat-passed
mark=$passed/$name-$(digest "$@" | sha256sum | cut -c1-64)
if [ -z "${FORCE:-}" ] && [ -e "$mark" ]; then
  printf '%s: passed before on the same files; FORCE=1 runs it\n' "$name"
  exit 0
fi
"$@"
mkdir -p "$passed"
touch "$mark"
