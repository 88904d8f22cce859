#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# toposeat-exec as it is found on PATH: starts the program of the package this belongs to. A wheel would have to hold the
# program a second time for it; `toposeat run` and its like name the program itself.
here=${0%/*}
if [ -L "$0" ]; then
  here=$(readlink -f "$0")
  here=${here%/*}
fi
for packages in "$here"/../lib*/python3*/site-packages "$here"/../lib*/python3*/dist-packages "$here"/..; do
  program=$packages/toposeat/_native/bin/toposeat-exec
  if [ -x "$program" ]; then exec "$program" "$@"; fi
done
printf 'toposeat-exec: the package toposeat is not beside %s\nhint: start the toposeat-exec of its folder _native/bin\n' \
  "$here" >&2
exit 127
