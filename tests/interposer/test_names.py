"""A program that asks which calls its MPI has gets the same answer with and without interposer."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.entries import ALL_CALLS, NEWER
from tests.support.interposed import compile_c, exported, libmpi, library
from tests.support.mpi import MPI_NAMES
from toposeat.installed import native_path
from toposeat.profile import profile_run

pytestmark = [pytest.mark.mpi, pytest.mark.each_abi]

# Prints each call with what a weak reference and dlsym say of it. Built twice: as a program that is
# linked to its MPI, and as a module of one that opens its MPI first, as mpi4py is.
ASKING = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
%(weak)s
static void ask(void) {
  static const struct { const char *name; void *weak; } all[] = {%(rows)s};
  for (unsigned i = 0; i < sizeof all / sizeof *all; ++i)
    printf("%%s %%d %%d\\n", all[i].name, all[i].weak != NULL,
           dlsym(RTLD_DEFAULT, all[i].name) != NULL);
}
#ifdef MODULE
void module(void);
void module(void) { ask(); }
#else
int MPI_Initialized(int *flag);
int main(void) {
  int flag = 0; /* or the linker drops the MPI */
  MPI_Initialized(&flag);
  ask();
  return 0;
}
#endif
"""
OPENING = """
import ctypes, sys
ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
ctypes.CDLL(sys.argv[2]).module()
"""


def test_names_are_those_of_the_mpi(mpi, build_dir):
    """Each call of the table that MPI 3.1 has, and no other."""
    own = {name for name in exported(library(mpi)) if name.startswith(("MPI_", "PMPI_"))}
    old = ALL_CALLS - NEWER
    assert own == old | {f"P{name}" for name in old}
    assert own <= exported(libmpi(mpi, build_dir))


def test_what_reorders_or_watches_ranks_shows_no_other_name_either(mpi, build_dir):
    for name in ("lib/libtoposeat_reorder.so", "lib/libtoposeat_probe.so"):
        own = {each for each in exported(native_path(name)) if "mpi_" in each.lower()}
        assert own
        assert own <= exported(libmpi(mpi, build_dir))


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    weak = [f"extern int {name}(void) __attribute__((weak));" for name in sorted(ALL_CALLS)]
    rows = [f'{{"{name}", (void *)&{name}}}' for name in sorted(ALL_CALLS)]
    file = tmp_path_factory.mktemp("asking") / "asking.c"
    file.write_text(ASKING % {"weak": "\n".join(weak), "rows": ",\n".join(rows)})
    return file


@pytest.mark.parametrize("how", ["linked", "eagerly linked", "opened"])
def test_a_program_that_asks(mpi, how, source, build_dir, tmp_path):
    if how == "opened":
        module = tmp_path / "module.so"
        build = ["gcc", "-shared", "-fPIC", "-DMODULE", "-o", module, source]
        subprocess.run(build, check=True)
        line = [sys.executable, "-c", OPENING, libmpi(mpi, build_dir), module]
    else:
        options = ["-Wl,-z,now"] if how == "eagerly linked" else []
        line = [compile_c(mpi, source, tmp_path, "-w", *options)]
    bare = asked(line, mpi.env)
    assert len(bare) == len(ALL_CALLS)
    assert "MPI_Send 1 1" in bare
    assert asked(line, {**mpi.env, "LD_PRELOAD": str(library(mpi))}) == bare


def asked(line, env):
    done = subprocess.run(line, env=dict(env), capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("mpi", MPI_NAMES[:3], indirect=True)  # mpi4py's wheel is for these
def test_mpi4py_does_without_what_is_missing(mpi, tmp_path):
    pytest.importorskip("mpi4py")
    script = tmp_path / "asks.py"
    script.write_text(
        "from mpi4py import MPI\n"
        "comm = MPI.COMM_WORLD\n"
        "said = []\n"
        "def try_it(call):\n"
        "    try:\n"
        "        return call()\n"
        "    except (MPI.Exception, NotImplementedError) as error:\n"
        "        said.append(type(error).__name__)\n"
        "made = try_it(lambda: comm.Idup(MPI.INFO_ENV))\n"
        "made and made[1].Wait()\n"
        "request = try_it(comm.Barrier_init)\n"
        "request and (request.Start(), request.Wait())\n"
        "session = try_it(MPI.Session.Init)\n"
        "session and session.Finalize()\n"
        "try_it(lambda: comm.Isendrecv(bytearray(8), 0, 0, bytearray(8), 0, 0).Wait())\n"
        "open(f'{__file__}.{comm.rank}', 'a').write(f'{said}\\n')\n"
    )
    program = [sys.executable, str(script)]
    line = [str(mpi.mpirun), *mpi.run_flags, "-n", "1", *program]
    done = subprocess.run(line, env=dict(mpi.env), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    traffic, code = profile_run(line, environment={**os.environ, **mpi.env})
    assert code == 0
    assert traffic.ranks == 1
    bare, profiled = Path(f"{script}.0").read_text().splitlines()
    assert profiled == bare
