"""Make what is handed out, in build/dist: `make release`.

The sdist; from it a wheel for CPython 3.11 and one for 3.12 and later, per machine; the C parts as
tarballs; the Spack recipe of this sdist; the list of parts; where all of it comes from; the digests
of all, signed if a key is given. zig, from the Python package `ziglang`, compiles for an older C
library than this system's, and for other machines. Nothing is made of a file that lacks hardening,
or that holds what no notice names.

Usage: [RELEASE_KEY=FILE] release.py [--machines x86_64,aarch64] [--python PATH]...

RELEASE_KEY is a private key of SSH, or the public half of one that an agent holds.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from check_version import check_version
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from hardened import lacking
from native_tarball import native_tarball
from provenance import digest, provenance, write_digests
from third_party import Found, find_parts

_ROOT = Path(__file__).resolve().parents[1]
_WORK, _DIST = _ROOT / "build" / "release", _ROOT / "build" / "dist"
_GLIBC = "2.28"
# What compiles and packs.
_TOOLS = ("ziglang", "cmake", "ninja", "scikit-build-core", "auditwheel", "cyclonedx-bom")
_PLACES = ("python3.11", "python3.12", "python3.13", "python3.14", "python3.15")
# Prints the version of an interpreter that can compile extension modules.
_LOOK = """
import pathlib, sys, sysconfig
assert pathlib.Path(sysconfig.get_paths()["include"], "Python.h").exists()
print(*sys.version_info[:2])
"""
_BUILD = """
import json, sys
from scikit_build_core import build
print(getattr(build, sys.argv[1])(sys.argv[2], json.loads(sys.argv[3])))
"""


def main() -> int:
    """Make everything anew; say what could not be made."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--machines", default="x86_64,aarch64")
    parser.add_argument("--python", action="append", default=[])
    args = parser.parse_args()
    started = datetime.now(UTC)
    key = Path(os.environ["RELEASE_KEY"]) if os.environ.get("RELEASE_KEY") else None
    if key is not None and (not key.is_file() or shutil.which("ssh-keygen") is None):
        raise SystemExit(
            f"error: nothing can be signed with RELEASE_KEY={key}\n"
            "hint:  it is a key's file, and ssh-keygen signs (package openssh-client)"
        )
    version, remark = check_version(_ROOT)
    _say(remark)
    shutil.rmtree(_DIST, ignore_errors=True)
    _DIST.mkdir(parents=True)
    _WORK.mkdir(exist_ok=True)
    sdist = _build(Path(sys.executable), "build_sdist", _ROOT, _DIST)
    source = _unpacked(sdist)
    write_spack_recipe(sdist)
    machines = args.machines.split(",")
    made: list[Wheel] = []
    for machine in machines:
        wheels = list(build_wheels(machine, source, args.python))
        made += wheels
        if wheels:
            with tempfile.TemporaryDirectory() as folder:
                zipfile.ZipFile(wheels[0].path).extractall(folder)
                native = Path(folder) / "toposeat" / "_native"
                native_tarball(native, _DIST / f"toposeat-native-{version}-linux_{machine}.tar.gz")
    write_list_of_parts([wheel.parts for wheel in made], version, _DIST / "toposeat.cdx.json")
    shutil.copy(_ROOT / "packaging" / "lock" / "run.txt", _DIST / "requirements.txt")
    told = provenance(
        _DIST,
        _ROOT,
        machines=machines,
        pythons={wheel.tag: wheel.python for wheel in made},
        tools={name: metadata.version(name) for name in _TOOLS},
        started=started,
    )
    (_DIST / "toposeat.provenance.json").write_text(json.dumps(told, indent=2) + "\n")
    write_digests(_DIST, key)
    _say("signed: SHA256SUMS.sig" if key is not None else "not signed: there is no RELEASE_KEY")
    print((_DIST / "SHA256SUMS").read_text(), end="")
    return 0


@dataclass(frozen=True)
class Wheel:
    """A wheel, what is compiled into it, and the Python that built it."""

    path: Path
    parts: Found
    tag: str
    python: str


def build_wheels(machine: str, source: Path, pythons: Iterable[str]) -> Iterable[Wheel]:
    """One wheel for Python 3.11 and one for all later ones, as auditwheel admits them."""
    found = _interpreters(pythons)
    later = min((version for version in found if version >= (3, 12)), default=None)
    for wanted, version in (("3.11", (3, 11)), ("3.12 and later", later)):
        if version is None or version not in found:
            _say(f"no wheel for Python {wanted}: none with Python.h is here, --python names one")
            continue
        _say(f"compiling for Python {wanted}, {machine}, by {found[version]}")
        yield _build_wheel(machine, source, found[version], "".join(map(str, version)))


def _interpreters(named: Iterable[str]) -> dict[tuple[int, ...], str]:
    found: dict[tuple[int, ...], str] = {}
    pyenv = sorted(Path.home().glob(".pyenv/versions/3.*/bin/python3"))
    for each in (*named, *_PLACES, *map(str, pyenv)):
        program = shutil.which(each)
        if program is None:
            continue
        look = subprocess.run([program, "-c", _LOOK], capture_output=True, text=True, check=False)
        if look.returncode == 0:
            found.setdefault(tuple(map(int, look.stdout.split())), program)
    return found


def _build_wheel(machine: str, source: Path, python: str, tag: str) -> Wheel:
    """A wheel of what auditwheel finds to need no more than our oldest C library."""
    folder = _WORK / machine
    target = f"{machine}-linux-gnu.{_GLIBC}"
    compilers = _compilers(folder, target)
    objects = _WORK / f"{machine}-{tag}"
    shutil.rmtree(objects, ignore_errors=True)  # an sdist's files all have one date
    settings = {
        "build-dir": str(objects),
        "cmake.define.TOPOSEAT_BUILD_SPANK": "OFF",  # of one release of Slurm, by its headers
        "cmake.define.CMAKE_AR": str(compilers["AR"]),
        "install.strip": "false",  # what the linker does, for any machine
    }
    if machine != os.uname().machine:
        settings["cmake.define.CMAKE_SYSTEM_NAME"] = "Linux"
        settings["cmake.define.CMAKE_SYSTEM_PROCESSOR"] = machine
    flags = _python_headers(folder, machine, python)
    environment = {
        "CFLAGS": flags,
        "CXXFLAGS": flags,
        "CC": str(compilers["CC"]),
        "CXX": str(compilers["CXX"]),
        "LDFLAGS": "-s",
        "_PYTHON_HOST_PLATFORM": f"linux-{machine}",
        "SETUPTOOLS_EXT_SUFFIX": f".cpython-{tag}-{machine}-linux-gnu.so",
        # zig has no name that ccache would know.
        "CCACHE_COMPILERTYPE": "clang",
        "CCACHE_COMPILERCHECK": f"string:zig {metadata.version('ziglang')} {target}",
    }
    raw = _build(
        _venv(python, tag), "build_wheel", source, folder,
        settings=settings, environment=environment,
    )  # fmt: skip
    before = set(_DIST.glob("*.whl"))
    _run([sys.executable, "-m", "auditwheel", "repair", "-w", str(_DIST), str(raw)])
    (wheel,) = set(_DIST.glob("*.whl")) - before
    # Not by --plat, which knows this machine's platforms only.
    needs = min(int(each) for each in re.findall(r"manylinux_2_(\d+)_", wheel.name))
    if needs > int(_GLIBC.partition(".")[2]):
        raise SystemExit(f"error: {wheel.name} needs glibc 2.{needs}, promised is {_GLIBC}")
    parts = find_parts(objects)
    with tempfile.TemporaryDirectory() as inside:
        zipfile.ZipFile(wheel).extractall(inside)
        wrong = [*lacking(Path(inside)), *parts.missing()]
    if wrong:
        raise SystemExit("\n".join(f"error: {wheel.name}: {line}" for line in wrong))
    return Wheel(wheel, parts, tag, _output([python, "--version"]).split()[-1])


def _python_headers(folder: Path, machine: str, python: str) -> str:
    """What the compiler is told of Debian's pyconfig.h, which includes one by the machine's name.

    It lies where zig does not look. All machines that wheels are made for have the same sizes of
    types, so that of this one serves.
    """
    look = "import sysconfig; print(sysconfig.get_path('include'))"
    include = Path(_output([python, "-c", look]).strip())
    own = include.parent / f"{os.uname().machine}-linux-gnu" / include.name
    if not own.is_dir():
        return ""
    link = folder / "include" / f"{machine}-linux-gnu" / include.name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(own)
    return f"-idirafter {folder / 'include'}"


# Programs that CMake takes for compilers: zig with its first words. What zig gives to its linker
# stands then where other linkers leave their maps (cmake/notices.cmake).
_COMPILER = r"""#!/bin/sh
zig={zig}
case " $* " in *" -v "*) exec "$zig/zig" {words} "$@" ;; esac
{{ said=$(ZIG_VERBOSE_LINK=1 "$zig/zig" {words} "$@" 2>&1 >&3); }} 3>&1
rc=$?
if linked=$(printf '%s\n' "$said" | grep '^ld\.lld .* -o '); then
  made=$(printf '%s\n' "$linked" | tail -n 1 | sed 's/.* -o \([^ ]*\) .*/\1/')
  mkdir -p links
  printf '# ziglang %s\n%s\n' "$zig" "$linked" >"links/${{made##*/}}.map"
fi
printf '%s\n' "$said" | grep -v -e '^ld\.lld ' -e '^ar rcs ' -e '^$' >&2
exit $rc
"""


def _compilers(folder: Path, target: str) -> dict[str, Path]:
    zig = Path(str(metadata.distribution("ziglang").locate_file("ziglang")))
    made = {}
    words_of = {"CC": f"cc -target {target}", "CXX": f"c++ -target {target}", "AR": "ar"}
    for name, words in words_of.items():
        made[name] = folder / "bin" / words.split()[0]
        made[name].parent.mkdir(parents=True, exist_ok=True)
        made[name].write_text(_COMPILER.format(zig=shlex.quote(str(zig)), words=words))
        made[name].chmod(0o755)
    return made


def _venv(python: str, tag: str) -> Path:
    """A Python with what the build needs, to the digest."""
    folder = _WORK / f"python-{tag}"
    program = folder / "bin" / "python"
    if not (folder / "bin" / "ninja").exists():
        _run([python, "-m", "venv", "--clear", str(folder)])
        lock = str(_ROOT / "packaging" / "lock" / "build.txt")
        words = ["--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
        _run([str(program), "-m", "pip", "install", *words, "-r", lock])
    return program


def _build(
    python: Path,
    what: str,
    source: Path,
    folder: Path,
    *,
    settings: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Path:
    """One file, by the build backend; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    words = [str(python), "-c", _BUILD, what, str(folder), json.dumps(settings or {})]
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    made = _output(words, cwd=source, **{"PATH": path, **(environment or {})})
    return folder / made.splitlines()[-1]


def _unpacked(sdist: Path) -> Path:
    """What everybody gets, and not this folder, is what wheels are made of."""
    source = _WORK / "source"
    shutil.rmtree(source, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=_WORK) as folder:
        subprocess.run(["tar", "-xf", sdist, "-C", folder], check=True)
        (inside,) = Path(folder).iterdir()
        inside.rename(source)
    return source


def write_spack_recipe(sdist: Path) -> None:
    """The repository of Spack's recipe, with the digest of the sdist."""
    shutil.copytree(_ROOT / "packaging" / "spack_repo", _DIST / "spack_repo")
    (recipe,) = (_DIST / "spack_repo").rglob("package.py")
    made, count = re.subn(r'sha256="[0-9a-f]*"', f'sha256="{digest(sdist)}"', recipe.read_text())
    assert count == 1, recipe
    recipe.write_text(made)


def write_list_of_parts(found: Iterable[Found], version: str, path: Path) -> None:
    """CycloneDX: the Python packages of an installation, with digests, and what is compiled in."""
    locks = _ROOT / "packaging" / "lock"
    build = (locks / "build.txt").read_text()
    nanobind = re.search(r"^nanobind==.*?[^\\]$", build, re.DOTALL | re.MULTILINE)
    assert nanobind is not None
    words = ["requirements", "-", "--pyproject", str(_ROOT / "pyproject.toml")]
    words += ["--mc-type", "application", "--output-reproducible", "-o", str(path)]
    _run(
        [_program("cyclonedx-py"), *words],
        given=(locks / "run.txt").read_text() + nanobind[0] + "\n",
        PYTHONWARNINGS="ignore::UserWarning",
    )
    bom = json.loads(path.read_text())
    bom["metadata"]["component"]["version"] = version
    listed = {each["name"]: each for each in bom["components"]}
    for parts in found:
        for part, files in parts.parts.items():
            known = part.version(parts.zig)
            purl = part.purl.format(known)
            component = listed.setdefault(
                part.name,
                {
                    "type": "library",
                    "bom-ref": purl,
                    "name": part.name,
                    "version": known,
                    "purl": purl,
                },
            )
            component["licenses"] = [{"expression": part.licence}]
            into = {"name": "toposeat:compiled-into", "value": ", ".join(sorted(files))}
            component["properties"] = [into]
    bom["components"] = list(listed.values())
    path.write_text(json.dumps(bom, indent=2) + "\n")
    wrong = JsonStrictValidator(SchemaVersion.from_version(bom["specVersion"])).validate_str(
        path.read_text()
    )
    if wrong is not None:
        raise SystemExit(f"error: {path.name} is not as CycloneDX wants it: {wrong}")


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def _run(words: list[str], *, given: str | None = None, **variables: str) -> None:
    subprocess.run(words, check=True, text=True, input=given, env={**os.environ, **variables})


def _output(words: list[str], *, cwd: Path = _ROOT, **variables: str) -> str:
    environment = {**os.environ, **variables}
    done = subprocess.run(
        words, check=True, stdout=subprocess.PIPE, text=True, env=environment, cwd=cwd
    )
    return done.stdout


def _say(text: str) -> None:
    print(f"release: {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
