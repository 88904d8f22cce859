"""Fixtures for the tests of toposeat-exec and its probe."""

import pytest

from tests.launcher.support import Exec
from toposeat.installed import native_path


@pytest.fixture(scope="session")
def exec_program():
    return native_path("bin/toposeat-exec")


@pytest.fixture(scope="session")
def probe_library():
    return native_path("lib/libtoposeat_probe.so")


@pytest.fixture
def launcher(exec_program, tmp_path):
    return Exec(exec_program, tmp_path)
