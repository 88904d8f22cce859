"""Fixtures of the interposer tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def build_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where compiled test programs stay for the session."""
    return tmp_path_factory.mktemp("programs")
