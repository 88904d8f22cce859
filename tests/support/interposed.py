"""Compiling test programs and running them under the interposer, without its own launcher."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.support.processes import ran
from toposeat.installed import native_path
from toposeat.model.rank_info import cpu_doubt

PROGRAMS = Path(__file__).resolve().parents[1] / "interposer" / "programs"
TIMEOUT_S = 300


@contextmanager
def only_one(path):
    """Others that want the same path wait, in other processes too."""
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def compile_c(mpi, source, folder, *options):
    """Compile once per session, MPI and set of options."""
    mark = hashlib.sha256(repr((mpi.name, str(source), options)).encode()).hexdigest()[:12]
    program = folder / f"{source.stem}-{mark}"
    compiler = mpi.fortran if source.suffix == ".f90" else mpi.mpicc
    assert compiler is not None
    line = [str(compiler), "-O1", *options, "-o", str(program), str(source)]
    with only_one(program):
        if not program.exists():
            done = ran(line, env=dict(mpi.env), cwd=folder)
            assert done.returncode == 0, done.stderr
    return program


def compile_with_static_mpi(mpi, source, folder, *options):
    """Debian's MPICH has a libmpich.a; the libraries below it stay shared."""
    shared = compile_c(mpi, source, folder)
    needed = [text.split()[2] for text in ran(["ldd", shared]).stdout.splitlines() if "=>" in text]
    others = [path for path in needed if "libmpich" not in path]
    shown = ran([mpi.mpicc, "-show"], check=True).stdout.split()
    program = folder / f"{source.stem}-static{''.join(options)}"
    archive = ["-Wl,-Bstatic", "-lmpich", "-Wl,-Bdynamic", *others]
    words = [word for word in shown[1:] if word != "-lmpich"]
    built = ran([shown[0], *options, *words, source, "-o", program, *archive])
    if built.returncode != 0:
        pytest.skip(f"MPICH cannot be linked statically: {built.stderr.splitlines()[-1]}")
    return program


def compile_text(mpi, name, text, folder):
    """Compile a program that is no file."""
    source = folder / f"{name}.c"
    with only_one(source):
        if not source.exists():
            source.write_text(text)
    return compile_c(mpi, source, folder)


LIBRARY_OF_ABI = {abi: f"lib/libtoposeat_{abi}.so" for abi in ("ompi", "mpich", "abi")}


def library(mpi):
    """The interposer library that fits."""
    return native_path(LIBRARY_OF_ABI[mpi.abi])


def libmpi(mpi, folder):
    """The library that this MPI's programs are linked to."""
    text = "#include <mpi.h>\nint main(void) { return MPI_Initialized(&(int){0}); }\n"
    program = compile_text(mpi, "linked_to_mpi", text, folder)
    done = ran(["ldd", program], env=dict(mpi.env), check=True)
    found = (line.split() for line in done.stdout.splitlines() if line.strip().startswith("libmpi"))
    return Path(next(found)[2])


def exported(file):
    """The names that a library shows."""
    words = ["nm", "-D", "--defined-only", file]
    done = ran(words, check=True)
    return {line.split()[2].partition("@")[0] for line in done.stdout.splitlines()}


def run_ranks(mpi, ranks, program, records, *, preload=None):
    """Run `program` on `ranks` ranks with the interposer preloaded, whatever its exit code."""
    records.mkdir(exist_ok=True)
    env = shutil.which("env")
    assert env is not None
    words = [str(word) for word in program]
    line = [
        *(str(mpi.mpirun), *mpi.run_flags, "-n", str(ranks), env),
        f"TOPOSEAT_PROFILE_DIR={records}",
        f"LD_PRELOAD={preload or library(mpi)}",
        *words,
    ]
    return ran(
        line,
        env={**mpi.env, "TMPDIR": os.environ.get("TMPDIR", "/tmp")},
        stdin=subprocess.DEVNULL,
        timeout=TIMEOUT_S,
    )


def fails_by_itself(mpi, ranks, program):
    """Whether the MPI cannot do this without the interposer either, or does not end."""
    line = [str(mpi.mpirun), *mpi.run_flags, "-n", str(ranks), *map(str, program)]
    try:
        done = subprocess.run(
            line,
            env=dict(mpi.env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def doubts(traffic):
    """What a profile doubts, without the CPUs of the machine that a test happens to run on."""
    return tuple(line for line in traffic.report if line != cpu_doubt(traffic.rank_info))


def read_truth(path, ranks, kinds=1):
    """What a test program says it sent: (kinds, 2, ranks, ranks); bytes, then messages."""
    return np.fromfile(path, dtype=np.int64).reshape(kinds, 2, ranks, ranks)
