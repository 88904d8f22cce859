#!/usr/bin/env bash
# Try what `make release` made as a new user would, as root:
#   - the wheel in an empty Debian with nothing but Python, from files alone, by a user without rights:
#     README's commands show what README says, man page and completions are in place, each verb is clocked;
#   - the wheel for Python 3.12 and later on each such Python of this machine;
#   - the C parts in a Debian without Python: a real MPI job is recorded, and started as placed.
# DIST=FOLDER names another folder than build/dist. The empty Debian is that of tools/empty_debian.sh.
# shellcheck disable=SC2016 # scripts in quotes are run by shells in other roots
set -euo pipefail
cd "$(dirname "$0")/.."
dist=${DIST:-$PWD/build/dist}

say() { printf 'release-check: %s\n' "$*"; }
fail() {
  say "$*" >&2
  exit 1
}

command -v mpicc.mpich >/dev/null || fail "needs Debian's MPICH: apt-get install libmpich-dev"
compgen -G "$dist/*.whl" >/dev/null || fail "nothing in build/dist: make release first"

debian=$(tools/empty_debian.sh bookworm)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

inside() { # $1: root folder; then a script, run in it by a user without rights, with mounts of its own
  local folder=$1
  shift

  unshare --mount --pid --fork --net sh -ec '
    mount -t proc proc "$1/proc"; mount -t sysfs sys "$1/sys"; mount --rbind /dev "$1/dev"; ip link set lo up 2>/dev/null || :
    exec chroot --userspec=1000:1000 "$1" env -i PATH=/opt/toposeat/bin:/usr/bin:/bin HOME=/home/user sh -ec "
      cd; $2"' sh "$folder" "$*"
}

say "the wheel in an empty Debian"
root=$scratch/python
cp -a "$debian" "$root"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
chroot "$root" sh -ec 'apt-get update -qq; apt-get install -y -qq --no-install-recommends hwloc-nox mpich' >"$scratch/apt.log"
mkdir -p "$root/wheels" "$root/home/user/docs/tests"
pip download --quiet --disable-pip-version-check --no-deps --require-hashes --python-version 3.11 \
  --only-binary :all: -r packaging/lock/run.txt -d "$root/wheels"
cp "$dist"/*-cp311-*"$(uname -m)".whl "$root/wheels"
cp -r README.md examples "$root/home/user/docs"
cp -r tests/docs "$root/home/user/docs/tests"
touch "$root/home/user/docs/tests/__init__.py"
chown -R 1000:1000 "$root/home/user"
chroot "$root" sh -ec 'python3 -m venv /opt/toposeat
  env -u PIP_FIND_LINKS /opt/toposeat/bin/pip install --quiet --no-index --find-links /wheels toposeat'
inside "$root" 'toposeat --version
  cd docs; python3 -c "
import pathlib, tests.docs.console as c
folder = pathlib.Path(\"/tmp/readme\"); folder.mkdir()
page = pathlib.Path(\"README.md\").resolve()
c.run_page(page, folder)
print(len(c.steps_of(page)), \"commands of README show what it says\")"
  test -s /opt/toposeat/share/man/man1/toposeat.1
  test -s /opt/toposeat/share/bash-completion/completions/toposeat'
inside "$root" 'cd /tmp
  toposeat map ring:8 -t dgx-1v -o ring.place >/dev/null 2>&1
  cat >clocked <<"END"
TIMEFORMAT="%U + %S s of the processor"
for line in "discover -t dgx-1v" "doctor -t dgx-1v" "map ring:8 -t dgx-1v" "choose 4 -t dgx-1v" \
    "export ring.place --launcher slurm" "report ring.place" "completion bash"; do
  echo "toposeat $line"; time toposeat $line 2>/dev/null | wc -l
done
END
  bash clocked 2>&1 | paste - - - | sed "s/\t/: /; s/\t/ lines, /"'
say "the wheel profiles a job there, and starts it as placed"
mpicc.mpich -O1 -o "$root/home/user/halo3d" examples/halo3d/halo3d.c
inside "$root" 'toposeat profile -o halo.prof -- mpiexec -n 4 ./halo3d --grid 2x2x1 2>&1 | grep "^Traffic"
  toposeat map halo.prof -t dgx-1v --min-gain 0 -o app.place >/dev/null 2>&1
  mpiexec -n 4 toposeat-exec -m app.place sh -c "echo \$CUDA_VISIBLE_DEVICES" 2>/dev/null | sort | uniq -c'

for python in "$HOME"/.pyenv/versions/3.1[2-9]*/bin/python3 /usr/bin/python3.1[2-9]; do
  [ -x "$python" ] || continue
  venv=$scratch/$(basename "$(dirname "$(dirname "$python")")")
  "$python" -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "$dist"/*-abi3-*"$(uname -m)".whl
  (cd "$scratch" && "$venv/bin/toposeat" map stencil3d:2x2x4 -t k80-16 >shown 2>&1 && grep -q '^Verdict' shown)
  say "the wheel for 3.12 and later maps on $("$python" -V)"
done

say "the C parts in a Debian without Python"
bare=$scratch/bare
mv "$root" "$bare"
rm -rf "$bare"/usr/bin/python3* "$bare"/usr/lib/python3* "$bare"/opt/toposeat
mkdir -p "$bare/home/user/records" "$bare/home/user/reports"
tar -C "$bare/home/user" -xzf "$dist"/toposeat-native-*"$(uname -m)".tar.gz
chown -R 1000:1000 "$bare/home/user"
inside "$bare" '! command -v python3
  mv toposeat-native-* anywhere
  mpiexec -n 4 anywhere/bin/toposeat-exec -E TOPOSEAT_PROFILE_DIR=/home/user/records \
    --preload /home/user/anywhere/lib/libtoposeat_mpich.so -- ./halo3d --grid 2x2x1 >/dev/null
  mpiexec -n 4 anywhere/bin/toposeat-exec -m app.place --report reports -- sh -c \
    "./halo3d --grid 2x2x1 >/dev/null; echo \$CUDA_VISIBLE_DEVICES" 2>/dev/null | sort | uniq -c
  ls reports | wc -l'
.venv/bin/toposeat report "$bare/home/user/records" | head -4
[ "$(find "$bare/home/user/records" -name '*.tpsrec' | wc -l)" = 4 ] || fail "not every rank was recorded"
say "all of it works"
