"""Fixtures of the tests of borrowed devices: this machine's own OpenCL, lent to itself."""

import shutil
from pathlib import Path

import pytest

from tests.support.interposed import only_one
from tests.support.lent import NATIVE, Proxy, run, why_no_opencl

PROGRAMS = Path(__file__).with_name("programs")


@pytest.fixture(scope="session", autouse=True)
def opencl():
    """Without a device there is nothing to lend."""
    if why := why_no_opencl():
        pytest.skip(why)


@pytest.fixture(scope="session")
def proxy(opencl):
    """One that serves both ways."""
    with Proxy("--address", "127.0.0.1") as made:
        yield made


def compiled(source, made, *options):
    """One of programs/."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    with only_one(made):
        if not made.exists():
            line = [compiler, "-O1", "-Wall", "-Wextra", *options, "-o", made, PROGRAMS / source]
            done = run([*line, "-lOpenCL", "-lpthread"], NATIVE)
            if "CL/cl" in done.stderr or "-lOpenCL" in done.stderr:
                pytest.skip("no OpenCL headers: Debian has ocl-icd-opencl-dev")
            assert (done.returncode, done.stderr) == (0, "")
    return made


def client_in(folder):
    """By which words a program of one subject runs, compiled there, or one of its scenarios."""
    return lambda subject, *scenario: [
        compiled(f"{subject}.c", folder / f"opencl-{subject}"),
        *scenario,
    ]


@pytest.fixture(scope="session")
def client(build_dir):
    """client("events") are the words that run all of its scenarios, client("moves", "held") one."""
    return client_in(build_dir)


@pytest.fixture(scope="session")
def random_program(build_dir):
    """What random programs are of."""
    return compiled("random.c", build_dir / "opencl-random")


@pytest.fixture(scope="session")
def faults(build_dir):
    """The layer by which a driver refuses calls."""
    return compiled("faults.c", build_dir / "opencl-faults.so", "-shared", "-fPIC")
