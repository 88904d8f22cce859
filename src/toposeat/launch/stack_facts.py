"""What an MPI or UCX installation says of itself: version, parts, variables, defaults."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from toposeat.launch.stack_settings import MPICH_REPEAT, MPICH_THRESHOLD, UCX_GET
from toposeat.model.protocol import Basis, Statement

_TIMEOUT_S = 30
_GPU_CALLS = (b"cudaMemcpy", b"cuMemcpy", b"hipMemcpy", b"zeCommandList")
_COMPONENT = re.compile(r"^mca:(\w+):(\w+):version", re.MULTILINE)
_DEFAULT = re.compile(r"^\s*(MPIR_CVAR_\w+)=(\S*)\t", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Installed:
    """Answers of an installation; empty where it gave none.

    Attributes:
        components: "framework:name" of Open MPI's parts.
        variables: names that it knows; empty: not known, so nothing is ruled out.
        defaults: values of variables that nobody set.
        takes_gpus: whether it is built with a GPU library; None if it does not say.
    """

    version: str = ""
    transport: str = ""
    components: frozenset[str] = frozenset()
    variables: frozenset[str] = frozenset()
    defaults: Mapping[str, str] = field(default_factory=dict)
    statements: tuple[Statement, ...] = ()
    takes_gpus: bool | None = None


def open_mpi_facts(launcher: str) -> Installed:
    """What `ompi_info` beside the launcher says."""
    program = _beside(launcher, "ompi_info")
    text = _answer([program, "--parsable", "--all"]) if program else ""
    if not text:
        return Installed(
            statements=(Statement("no ompi_info: its parts are not known", Basis.ASSUMED),)
        )
    version = re.search(r"^ompi:version:full:(\S+)", text, re.MULTILINE)
    components = frozenset(f"{m[1]}:{m[2]}" for m in _COMPONENT.finditer(text))
    cuda = re.search(r"built_with_cuda_support:value:(true|false)", text)
    gpu_parts = {f"accelerator:{name}" for name in ("cuda", "rocm", "ze")}
    takes_gpus = cuda[1] == "true" if cuda else None
    return Installed(
        version=version[1] if version else "",
        components=components,
        takes_gpus=True if components & gpu_parts else takes_gpus,
    )


def mpich_facts(launcher: str) -> Installed:
    """What `mpichversion` and `mpivars` beside the launcher say."""
    described = _answer([_beside(launcher, "mpichversion")])
    version = re.search(r"^MPICH Version:\s*(\S+)", described, re.MULTILINE)
    device = re.search(r"^MPICH Device:\s*(.+?)\s*$", described, re.MULTILINE)
    listed = dict(_DEFAULT.findall(_answer([_beside(launcher, "mpivars")])))
    said = []
    if described and not re.search(r"--with-(cuda|hip|ze)\b", described):
        said.append(
            Statement(
                "its configure line names no GPU library: device buffers may not work at all",
                Basis.ASSUMED,
                "mpichversion",
            )
        )
    return Installed(
        version=version[1] if version else "",
        transport=device[1] if device else "",
        variables=frozenset(listed),
        defaults={k: v for k, v in listed.items() if k in (MPICH_THRESHOLD, MPICH_REPEAT)},
        statements=tuple(said),
        takes_gpus=None if not said else _names_gpu_calls(launcher),
    )


def ucx_facts(environment: Mapping[str, str]) -> Installed:
    """What the UCX that programs would load says: that on LD_LIBRARY_PATH, else on PATH."""
    for folder in environment.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        program = Path(folder, os.pardir, "bin", "ucx_info")
        if folder and Path(folder, "libucp.so.0").exists() and program.exists():
            return _ucx_facts(str(program), environment)
    found = shutil.which("ucx_info", path=environment.get("PATH"))
    if found:
        return _ucx_facts(found, environment)
    return Installed(
        statements=(Statement("no ucx_info: UCX's version is not known", Basis.ASSUMED),)
    )


def _ucx_facts(program: str, environment: Mapping[str, str]) -> Installed:
    version = re.search(
        r"Library version:\s*(\S+)", _answer([program, "-v"], environment), re.IGNORECASE
    )
    listed = re.findall(r"^(UCX_\w+)=", _answer([program, "-c"], environment), re.MULTILINE)
    known = frozenset(listed)
    if known and not any(name.startswith("UCX_CUDA_") for name in known):
        # UCX loads its CUDA part, and lists its variables, only where there is a driver.
        return Installed(
            version=version[1] if version else "",
            variables=known | {UCX_GET},
            statements=(
                Statement(
                    "UCX lists no variables of its CUDA part here: no GPU driver, or built without",
                    Basis.KNOWN,
                    "ucx_info -c",
                ),
            ),
        )
    return Installed(version=version[1] if version else "", variables=known)


def _names_gpu_calls(launcher: str) -> bool | None:
    """Whether a library of the MPI names calls of a GPU library; None where none is found."""
    prefix = Path(os.path.realpath(launcher)).parent.parent
    found = [
        path
        for folder in ("lib", "lib64", "lib/*-linux-gnu")
        for name in ("libmpi.so*", "libmpich.so*", "libmpi-*.so*")
        for path in prefix.glob(f"{folder}/{name}")
    ]
    try:
        texts = [path.read_bytes() for path in {each.resolve() for each in found}]
    except OSError:
        return None
    return any(call in text for text in texts for call in _GPU_CALLS) if texts else None


def _beside(launcher: str, name: str) -> str:
    """A program of the same installation: beside the launcher or where its link leads."""
    for place in (Path(launcher), Path(os.path.realpath(launcher))):
        suffix = place.suffix if place.suffix in (".openmpi", ".mpich") else ""
        for word in (f"{name}{suffix}", name):
            if place.with_name(word).exists():
                return str(place.with_name(word))
    return ""


def _answer(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """Standard output of a program; "" if it cannot be asked."""
    if not command[0]:
        return ""
    try:
        done = subprocess.run(
            list(command),
            env=None if environment is None else dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace")
