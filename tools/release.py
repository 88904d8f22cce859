"""Make what is handed out, in build/dist: `make release`.

The sdist, with man page and completions; from it a wheel for CPython 3.11 and one for 3.12 and
later, per machine; the C parts as tarballs; the Spack recipe of this sdist; the list of parts;
the digests of all. zig, from the Python package `ziglang`, compiles for an older C library than
this system's, and for other machines.

Usage: release.py [--machines x86_64,aarch64] [--python PATH]...
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path

from check_version import check_version
from native_tarball import native_tarball

_ROOT = Path(__file__).resolve().parents[1]
_WORK, _DIST = _ROOT / "build" / "release", _ROOT / "build" / "dist"
_SHARE = _ROOT / "packaging" / "share"
_GLIBC = "2.28"
_SHELL_FILES = {
    "bash": "bash-completion/completions/toposeat",
    "zsh": "zsh/site-functions/_toposeat",
    "fish": "fish/vendor_completions.d/toposeat.fish",
}
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
    version, remark = check_version(_ROOT)
    _say(remark)
    shutil.rmtree(_DIST, ignore_errors=True)
    _DIST.mkdir(parents=True)
    write_shell_files(version)
    sdist = _build(Path(sys.executable), "build_sdist", _ROOT, _DIST)
    source = _unpacked(sdist)
    write_spack_recipe(sdist)
    for machine in args.machines.split(","):
        wheels = list(build_wheels(machine, source, args.python))
        if wheels:
            with tempfile.TemporaryDirectory() as folder:
                zipfile.ZipFile(wheels[0]).extractall(folder)
                native = Path(folder) / "toposeat" / "_native"
                native_tarball(native, _DIST / f"toposeat-native-{version}-linux_{machine}.tar.gz")
    write_list_of_parts()
    shutil.copy(_ROOT / "packaging" / "lock" / "run.txt", _DIST / "requirements.txt")
    made = sorted(path for path in _DIST.rglob("*") if path.is_file())
    digests = [f"{_digest(path)}  {path.relative_to(_DIST)}" for path in made]
    (_DIST / "SHA256SUMS").write_text("\n".join(digests) + "\n")
    print(*digests, sep="\n")
    return 0


def write_shell_files(version: str) -> None:
    """The man page and the completions, made of the parser: sdist and wheels take them along."""
    shutil.rmtree(_SHARE, ignore_errors=True)
    for shell, name in _SHELL_FILES.items():
        path = _SHARE / name
        path.parent.mkdir(parents=True)
        path.write_text(_output([_program("toposeat"), "completion", shell]))
    page = _SHARE / "man" / "man1" / "toposeat.1"
    page.parent.mkdir(parents=True)
    words = {
        "module": "toposeat.cli.main",
        "function": "whole_parser",
        "format": "single-commands-section",
        "project-name": "toposeat",
        "prog": "toposeat",
        "version": version,
        "manual-title": "toposeat manual",
        "description": "choose which MPI rank uses which GPU",
        "include": str(_ROOT / "packaging" / "manual.txt"),
        "output": str(page),
    }
    day = _output(["git", "-C", str(_ROOT), "log", "-1", "--format=%ct"]).strip()
    _run(
        [_program("argparse-manpage"), *(f"--{name}={word}" for name, word in words.items())],
        SOURCE_DATE_EPOCH=day,
    )
    # A line may begin with "./app": escaped, so that roff does not take it for its own.
    page.write_text(re.sub(r"^(?=\./)", r"\\&", page.read_text(), flags=re.MULTILINE))


def build_wheels(machine: str, source: Path, pythons: Iterable[str]) -> Iterable[Path]:
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


def _build_wheel(machine: str, source: Path, python: str, tag: str) -> Path:
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
    environment = {
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
    return wheel


def _compilers(folder: Path, target: str) -> dict[str, Path]:
    """Programs that CMake takes for compilers: zig with its first words."""
    zig = metadata.distribution("ziglang").locate_file("ziglang/zig")
    made = {}
    words_of = {"CC": f"cc -target {target}", "CXX": f"c++ -target {target}", "AR": "ar"}
    for name, words in words_of.items():
        made[name] = folder / "bin" / words.split()[0]
        made[name].parent.mkdir(parents=True, exist_ok=True)
        made[name].write_text(f'#!/bin/sh\nexec "{zig}" {words} "$@"\n')
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
    made, count = re.subn(r'sha256="[0-9a-f]*"', f'sha256="{_digest(sdist)}"', recipe.read_text())
    assert count == 1, recipe
    recipe.write_text(made)


def write_list_of_parts() -> None:
    """What an installation consists of, with digests, as CycloneDX."""
    locks = _ROOT / "packaging" / "lock"
    build = (locks / "build.txt").read_text()
    nanobind = re.search(r"^nanobind==.*?[^\\]$", build, re.DOTALL | re.MULTILINE)
    assert nanobind is not None
    words = ["requirements", "-", "--pyproject", str(_ROOT / "pyproject.toml")]
    words += ["--mc-type", "application", "--output-reproducible"]
    words += ["-o", str(_DIST / "toposeat.cdx.json")]
    _run(
        [_program("cyclonedx-py"), *words],
        given=(locks / "run.txt").read_text() + nanobind[0] + "\n",
        PYTHONWARNINGS="ignore::UserWarning",
    )


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
