"""Running test programs with the reordering library, on nodes that are only pretended."""

import shutil
import subprocess
from pathlib import Path

from tests.support.processes import ran
from toposeat.installed import native_path

PROGRAMS = Path(__file__).resolve().parent / "programs"
LIBRARY = "lib/libtoposeat_reorder.so"
_TIMEOUT_S = 300


def run_reordered(mpi, nodes, program, *, preload=(), variables=None, limit_s=_TIMEOUT_S):
    """Run `program` with a rank for each of `nodes`, on the node of that number.

    Args:
        mpi: what starts it.
        nodes: the node of each rank.
        program: the command.
        preload: libraries behind the reordering one.
        variables: more of the ranks' environment.
        limit_s: after so many seconds the whole job is ended, with exit code 124.
    """
    env, timeout = shutil.which("env"), shutil.which("timeout")
    assert env is not None
    assert timeout is not None
    libraries = ":".join(str(path) for path in (native_path(LIBRARY), *preload))
    made = {
        "TOPOSEAT_REORDER_NODES": ",".join(map(str, nodes)),
        "LD_PRELOAD": libraries,
        **(variables or {}),
    }
    return ran(
        [
            *(timeout, "--kill-after=5", str(limit_s)),
            *(str(mpi.mpirun), *mpi.run_flags, "-n", str(len(nodes)), env),
            *(f"{name}={value}" for name, value in made.items()),
            *map(str, program),
        ],
        env=dict(mpi.env),
        stdin=subprocess.DEVNULL,
        timeout=limit_s + 30,
    )
