#!/usr/bin/env bash
# Run a part of `make lint` or `make test`, and keep how many seconds it took: tools/clocked.sh PART COMMAND...
# `.ci/run` shows all of them at its end.
set -euo pipefail
part=$1 begun=$SECONDS code=0
shift
"$@" || code=$?
mkdir -p build
printf '%6d s  %s\n' $((SECONDS - begun)) "$part" >>build/seconds.txt
exit "$code"
