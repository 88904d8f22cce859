"""One cluster for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import Cluster, running_cluster, why_not

_SHARED = Path(__file__).resolve().parents[3] / "shared"
_SCRIPT = (
    _SHARED.resolve() / "testbed" / "cluster.sh"
)  # not by a link below /tmp, which the nodes lack


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Four nodes of four GPUs below two leaf switches."""
    reason = why_not(_SCRIPT)
    if reason:
        pytest.skip(reason)
    with running_cluster(_SCRIPT) as running:
        yield running
