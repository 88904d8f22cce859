"""Fixtures for the tests of toposeat-exec and its probe."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.launcher.programs import build_programs
from tests.launcher.support import Exec
from toposeat.installed import native_path


@pytest.fixture(scope="session")
def exec_program() -> Path:
    return native_path("bin/toposeat-exec")


@pytest.fixture(scope="session")
def probe_library() -> Path:
    return native_path("lib/libtoposeat_probe.so")


@pytest.fixture
def launcher(exec_program: Path, tmp_path: Path) -> Exec:
    return Exec(exec_program, tmp_path)


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the compiled programs of `tests.launcher.programs`."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("programs")
    build_programs(folder, compiler)
    return folder
