"""Fixtures of the tests of borrowed devices: this machine's own OpenCL, lent to itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.interposed import only_one
from tests.support.lent import NATIVE, Proxy, run, why_no_opencl

PROGRAM = Path(__file__).with_name("programs") / "client.c"


@pytest.fixture(scope="session", autouse=True)
def opencl() -> None:
    """Without a device there is nothing to lend."""
    if why := why_no_opencl():
        pytest.skip(why)


@pytest.fixture(scope="session")
def proxy(opencl: None) -> Iterator[Proxy]:
    """One that serves both ways."""
    with Proxy("--address", "127.0.0.1") as made:
        yield made


@pytest.fixture(scope="session")
def client(build_dir: Path) -> Path:
    """programs/client.c, compiled."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    program = build_dir / "opencl-client"
    with only_one(program):
        if not program.exists():
            line = [compiler, "-O1", "-Wall", "-Wextra", "-o", program, PROGRAM, "-lOpenCL"]
            done = run([*line, "-lpthread"], NATIVE)
            if "CL/cl.h" in done.stderr or "-lOpenCL" in done.stderr:
                pytest.skip("no OpenCL headers: Debian has ocl-icd-opencl-dev")
            assert (done.returncode, done.stderr) == (0, "")
    return program
