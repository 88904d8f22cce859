"""One cluster for all tests of this folder, on a machine that may stand still for a while."""

import threading
import time
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

from tests.support.cluster import running_cluster, why_not

_SHARED = Path(__file__).resolve().parents[3] / "shared"
_SCRIPT = (
    _SHARED.resolve() / "testbed" / "cluster.sh"
)  # not by a link below /tmp, which the nodes lack


@pytest.fixture(scope="session")
def cluster():
    """Four nodes of four GPUs below two leaf switches."""
    reason = why_not(_SCRIPT)
    if reason:
        pytest.skip(reason)
    with running_cluster(_SCRIPT) as running:
        yield running


_STOOD_STILL_S = 15.0
_TICK_S = 0.5


class _Ticks(threading.Thread):
    """Sees how long this process did not run: `longest_s`, the longest gap between two ticks."""

    longest_s = 0.0

    def run(self):
        last = time.monotonic()
        while True:
            time.sleep(_TICK_S)
            now = time.monotonic()
            self.longest_s, last = max(self.longest_s, now - last), now


_ticks = _Ticks(daemon=True)


def pytest_runtest_protocol(item, nextitem):
    """A test that failed while the whole machine stood still is run once more.

    Virtual machines are paused (94 s were seen) while clocks go on: waits with a limit then end.
    """
    if "cluster" not in item.keywords:
        return None
    if not _ticks.is_alive():
        _ticks.start()
    where = {"nodeid": item.nodeid, "location": item.location}
    item.ihook.pytest_runtest_logstart(**where)
    _ticks.longest_s = 0.0
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    if any(report.failed for report in reports) and _ticks.longest_s > _STOOD_STILL_S:
        item._initrequest()  # type: ignore[attr-defined]
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(**where)
    return True
