"""ABI facts, wrong libraries, programs without MPI, and hostile surroundings."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.interposed import (
    LIBRARY_OF_ABI,
    PROGRAMS,
    compile_c,
    library,
    read_truth,
    run_ranks,
)
from tests.support.processes import ran
from toposeat.installed import native_path
from toposeat.profile import read_records

pytestmark = pytest.mark.each_abi

ABI = Path(__file__).resolve().parents[2] / "interposer" / "abi"
LIBRARIES = tuple(LIBRARY_OF_ABI.values())
OPTIONS = ("--grid", "1x1x2", "--mode", "all", "--iterations", "2", "--bytes", "10")


@pytest.mark.mpi
def test_constants(mpi, build_dir):
    header = ABI / f"{mpi.abi}.h"
    program = compile_c(mpi, PROGRAMS / "constants.c", build_dir, f'-DABI_HEADER="{header}"')
    done = ran([program], env=dict(mpi.env))
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.mpi
def test_wrong_library_gets_out_of_the_way(mpi, halo3d, tmp_path):
    records = tmp_path / "records"
    for wrong in set(LIBRARIES) - {LIBRARY_OF_ABI[mpi.abi]}:
        done = run_ranks(mpi, 2, [halo3d, *OPTIONS], records, preload=native_path(wrong))
        assert done.returncode == 0
        assert done.stdout.count("halo3d ") == 5
        said = [line for line in done.stderr.splitlines() if line.startswith("toposeat:")]
        assert [line.split(":")[1] for line in said] == [" rank 0"]  # it speaks for all of them
        assert said[0].endswith(f"; set TOPOSEAT_MPI_ABI={mpi.abi}: not recording")
        assert list(records.iterdir()) == []


@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.parametrize(
    "command",
    [["/bin/true"], ["bash", "-c", "echo hello"], [sys.executable, "-c", "print('hello')"]],
)
def test_programs_without_mpi_do_not_notice(name, command, tmp_path):
    env = {**os.environ, "TOPOSEAT_PROFILE_DIR": str(tmp_path)}
    plain = subprocess.run(command, env=env, capture_output=True, check=True)
    env["LD_PRELOAD"] = str(native_path(name))
    done = subprocess.run(command, env=env, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (plain.stdout, plain.stderr)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", LIBRARIES)
def test_library_links_no_mpi(name):
    done = ran(["ldd", native_path(name)], check=True).stdout
    assert "libmpi" not in done
    assert "cuda" not in done


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["wheel-mpich", "debian-openmpi"], indirect=True)
@pytest.mark.parametrize("directory", ["", "/nonexistent/folder", "/proc/self", "x" * 5000])
def test_unusable_folder(mpi, directory, halo3d):
    env = {
        **mpi.env,
        "TOPOSEAT_PROFILE_DIR": directory,
        "LD_PRELOAD": str(library(mpi)),
    }
    line = [halo3d, "--grid", "1x1x1", "--mode", "isend"]  # a single process, no launcher
    done = ran(line, env=env)
    assert done.returncode == 0
    assert done.stdout.startswith("halo3d isend")
    said = [line for line in done.stderr.splitlines() if line.startswith("toposeat:")]
    assert len(said) == 1
    assert said[0].endswith("not recording")


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["wheel-mpich", "debian-openmpi"], indirect=True)
def test_full_file_system(mpi, halo3d, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(small)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("cannot mount a small tmpfs here")
    try:
        line = [halo3d, "--grid", "1x1x1", "--mode", "isend", "--wrap"]
        env = {
            **mpi.env,
            "TOPOSEAT_PROFILE_DIR": str(small),
            "LD_PRELOAD": str(library(mpi)),
        }
        done = ran(line, env=env)
        assert done.returncode == 0, done.stderr
        assert "no space left" in done.stderr
        traffic = read_records(small)
        assert any("could not be" in line for line in traffic.report)
    finally:
        subprocess.run(["umount", str(small)], check=True)


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_truth_file_is_rank_by_rank(mpi, halo3d, tmp_path):
    """The oracle of the other tests: neighbours of an open 1x1x2 grid are just each other."""
    run_ranks(mpi, 2, [halo3d, *OPTIONS, "--truth", tmp_path / "truth"], tmp_path / "records")
    sent, messages = read_truth(tmp_path / "truth", 2)[0]
    assert sent.tolist() == [[0, 100], [100, 0]]  # 5 modes x 2 iterations x 10 bytes
    assert messages.tolist() == [[0, 10], [10, 0]]
