"""An MPI whose ABI is none of the prebuilt ones: refused by name, and left alone."""

import os
import subprocess

import pytest

from tests.support.interposed import LIBRARY_OF_ABI, PROGRAMS
from tests.support.processes import ran
from toposeat.errors import ToposeatError
from toposeat.installed import native_path
from toposeat.profile import profile_run

FOREIGN = PROGRAMS / "foreign"


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    """A program that is linked with a libmpi.so.7 of its own."""
    prefix = tmp_path_factory.mktemp("foreign")
    library, program = prefix / "libmpi.so.7", prefix / "app"
    line = ["gcc", "-shared", "-fPIC", "-I", FOREIGN, "-Wl,-soname,libmpi.so.7"]
    subprocess.run([*line, "-o", library, FOREIGN / "mpi.c"], check=True)
    line = ["gcc", "-I", FOREIGN, "-o", program, FOREIGN / "app.c", library]
    subprocess.run([*line, f"-Wl,-rpath,{prefix}"], check=True)
    return program


@pytest.mark.mpi
def test_it_is_refused_by_name(app):
    with pytest.raises(ToposeatError, match=r"app runs on .*/libmpi\.so\.7, an MPI that") as caught:
        profile_run([str(app)])
    assert "Open MPI" in caught.value.hint


@pytest.mark.mpi
@pytest.mark.parametrize("name", LIBRARY_OF_ABI.values())
def test_interposers_keep_away_from_it(app, name, tmp_path):
    env = {**os.environ, "TOPOSEAT_PROFILE_DIR": str(tmp_path)}
    env["LD_PRELOAD"] = str(native_path(name))
    done = ran([app], env=env)
    assert (done.returncode, done.stdout) == (0, "good\n")
    assert done.stderr.endswith("an MPI of another ABI (libmpi.so.7): not recording\n")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
