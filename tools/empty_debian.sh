#!/usr/bin/env bash
# Print the folder of an empty Debian: tools/empty_debian.sh bookworm|trixie, as root.
# It has git, make, python3 and python3-venv, and nothing else that Debian does not call required; this
# machine's own package mirror and apt settings are its own. It is made once; work on copies of it.
set -euo pipefail
cd "$(dirname "$0")/.."
suite=${1:?usage: tools/empty_debian.sh SUITE}
root=$PWD/build/debian/$suite

fail() {
  printf 'empty-debian: %s\n' "$1" >&2
  printf 'hint: %s\n' "$2" >&2
  exit 1
}

[ "$(id -u)" = 0 ] || fail "needs root, for debootstrap and chroot" "as root: make fresh, make release-check"
command -v debootstrap >/dev/null || fail "needs debootstrap" "as root: apt-get install debootstrap"
if [ ! -e "$root/ready" ]; then
  printf 'empty-debian: making Debian %s in %s\n' "$suite" "$root" >&2
  rm -rf "$root"
  mkdir -p "$root"
  # The first mirror of Debian itself that apt uses here; debootstrap knows one where there is none.
  mirror=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(SITE)' | sed -n 's/^Debian Debian //p' | head -n 1)
  debootstrap --variant=minbase --include=git,make,python3,python3-venv "$suite" "$root" ${mirror:+"$mirror"} \
    >"$root.log" 2>&1 || fail "debootstrap failed" "its output is in $root.log"
  apt-config dump | grep -E '^Acquire::(https?|Check-|Retries|ForceIPv)' >"$root/etc/apt/apt.conf.d/host" || :
  cp -a /etc/apt/auth.conf.d/. "$root/etc/apt/auth.conf.d/" 2>/dev/null || :
  touch "$root/ready"
fi
printf '%s\n' "$root"
