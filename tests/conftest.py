"""Fixtures for all tests."""

import functools
import gc
import os
import re
import shutil
import signal
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.launcher.support import build_programs
from tests.support.interposed import compile_c
from tests.support.mpi import MPI_NAMES, STANDARD, WIDE, find_mpi

# The same examples in every run, so that a change is judged by itself; TOPOSEAT_TEST_RANDOM=1 draws
# new ones each time, which is how new faults are found. No test fails because the machine is busy.
_ANY_SPEED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("reproducible", _ANY_SPEED, derandomize=True)
settings.register_profile("random", _ANY_SPEED, derandomize=False, print_blob=True)
settings.load_profile("random" if os.environ.get("TOPOSEAT_TEST_RANDOM") else "reproducible")

# Shells start background jobs with SIGINT ignored, and whatever a test starts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_ROOT = Path(__file__).resolve().parents[1]


_MPI_FIXTURES = {"mpi", "debian_openmpi"}


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items):
    """What works with an MPI, or on a cluster, is marked so, and on which MPI only in depth."""
    mpis_of = {}
    for item in items:
        if item.nodeid.startswith("tests/cluster/"):
            item.add_marker(pytest.mark.cluster)
        if _MPI_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.mpi)
        if item.get_closest_marker("mpi") and not _says_mpi(item.path):
            raise pytest.UsageError(f"{item.path}: the Makefile finds such files by the word mpi")
        if mpi := _mpi_of(item):
            mpis_of.setdefault(item.nodeid.replace(mpi, "*"), []).append(mpi)
    for item in items:
        mpi = _mpi_of(item)
        alike = mpis_of.get(item.nodeid.replace(mpi, "*"), []) if mpi and not WIDE else []
        if item.get_closest_marker("each_abi"):
            alike = [each for each in alike if _abi_of(each) == _abi_of(mpi)]
        if alike and mpi != min(alike, key=_wheels_first):
            item.add_marker(pytest.mark.deep)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session):
    """In a fresh checkout each worker compiles its share of the tests, and finds the other ones."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
    if worker and session.config.args_source == pytest.Config.ArgsSource.TESTPATHS:
        files = sorted(_ROOT.glob("tests/**/test_*.py"))
        begin = len(files) * worker // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        for path in files[begin:] + files[:begin]:
            with suppress(Exception, pytest.skip.Exception):  # collecting says it
                import_module(".".join(path.relative_to(_ROOT).with_suffix("").parts))


def pytest_collection_finish():
    """Python need not look again and again for garbage in what was collected: it stays."""
    gc.freeze()


@functools.cache
def _says_mpi(path):
    return re.search(r"\b(mpi|debian_openmpi)\b", path.read_text()) is not None


def _mpi_of(item):
    """The name of the MPI of a test that runs on several in turn."""
    call = getattr(item, "callspec", None)
    return str(call.params.get("mpi", "")) if call else ""


def _abi_of(mpi):
    return "abi" if mpi.endswith(STANDARD) else mpi.split("-")[1]


def _wheels_first(mpi):
    return not mpi.startswith("wheel"), mpi


@pytest.fixture(scope="session")
def shared_dir():
    """Recorded machines, traffic and benchmark instances beside the checkout."""
    shared = _ROOT.parent / "shared"
    if not (shared / "machines").is_dir():
        pytest.skip("no ../shared beside the checkout: recorded machines are not here")
    return shared


@pytest.fixture(scope="session", params=MPI_NAMES)
def mpi(request):
    """Every MPI on this machine in turn; the missing ones skip with the reason."""
    found = find_mpi(request.param)
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """Folder with the compiled programs of `tests/launcher/programs`."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("programs")
    build_programs(folder, compiler)
    return folder


@pytest.fixture(scope="session")
def examples_dir():
    """The project's example programs."""
    return _ROOT / "examples"


@pytest.fixture(scope="session")
def build_dir(tmp_path_factory):
    """Where compiled test programs stay for the session; all workers of a session share it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "programs"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture  # for each test: folders may have an `mpi` of their own
def halo3d(mpi, examples_dir, build_dir):
    """examples/halo3d, compiled by this MPI."""
    source = examples_dir / "halo3d" / "halo3d.c"
    return compile_c(mpi, source, build_dir, "-Wall", "-Werror")
