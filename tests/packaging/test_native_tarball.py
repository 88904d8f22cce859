"""The tarball of C parts: unpacked anywhere, its programs seat and its libraries record."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tests.launcher.support import placement_text, seat_line
from tests.support.interposed import read_truth, run_ranks
from tests.support.mpi import find_mpi
from tests.support.processes import ran
from toposeat.installed import native_path
from toposeat.model.traffic import TrafficKind
from toposeat.profile import read_traffic

TOOL = Path(__file__).parents[2] / "tools" / "native_tarball.py"


@pytest.fixture(scope="module")
def mpi():
    found = find_mpi("wheel-mpich")
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("made") / "toposeat-native-0-linux.tar.gz"
    native = native_path("bin/toposeat-exec").parents[1]
    subprocess.run([sys.executable, TOOL, native, path], check=True)
    return path


@pytest.fixture
def unpacked(archive, tmp_path):
    (tmp_path / "somewhere").mkdir()
    subprocess.run(["tar", "-xf", archive, "-C", tmp_path / "somewhere"], check=True)
    (folder,) = (tmp_path / "somewhere").iterdir()
    return folder


def test_the_same_parts_make_the_same_file(archive, tmp_path):
    again = tmp_path / archive.name
    native = native_path("bin/toposeat-exec").parents[1]
    subprocess.run([sys.executable, TOOL, native, again], check=True)
    assert again.read_bytes() == archive.read_bytes()


def test_nothing_in_it_needs_python_or_is_emulated(unpacked):
    names = {path.name for path in unpacked.rglob("*")}
    assert {"README.md", "LICENSE-MIT", "LICENSE-APACHE", "toposeat-exec"} <= names
    assert not [name for name in names if "cuda" in name or "nvidia" in name or ".py" in name]


def test_the_reordering_library_exports_mpi_and_nothing_of_the_cpp_runtime(unpacked):
    with (unpacked / "lib" / "libtoposeat_reorder.so").open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".dynsym").iter_symbols()
        names = [symbol.name for symbol in symbols if symbol["st_shndx"] != "SHN_UNDEF"]
    assert "MPI_Cart_create" in names
    others = [name for name in names if not name.startswith(("MPI_", "PMPI_"))]
    assert others == ["toposeat_behind"]  # what our libraries ask each other


def test_a_rank_is_seated_and_tells_what_it_got(unpacked, tmp_path):
    place, reports = tmp_path / "app.place", tmp_path / "reports"
    place.write_text(placement_text([seat_line(0, 2), seat_line(1, 0)]))
    reports.mkdir()
    line = [unpacked / "bin" / "toposeat-exec", "-m", place, "--report", reports, "--", "env"]
    shown = ran(
        line,
        check=True,
        env={"PATH": os.environ["PATH"], "PMI_RANK": "0", "PMI_SIZE": "2", "MPI_LOCALRANKID": "0"},
    ).stdout
    assert "CUDA_VISIBLE_DEVICES=2,0" in shown
    preloaded = next(line for line in shown.splitlines() if line.startswith("LD_PRELOAD="))
    assert str(unpacked) in os.path.realpath(preloaded.partition("=")[2])  # its own rank probe
    assert (reports / "rank-0.seat").exists()


@pytest.mark.mpi
def test_ranks_are_recorded_from_there(unpacked, mpi, halo3d, tmp_path):
    library = unpacked / "lib" / f"libtoposeat_{mpi.abi}.so"
    truth, records = tmp_path / "truth", tmp_path / "records"
    program = [halo3d, "--grid", "2x2x1", "--bytes", "1000", "--iterations", "3", "--truth", truth]
    done = run_ranks(mpi, 4, program, records, preload=library)
    assert done.returncode == 0, done.stderr
    expected = read_truth(truth, 4)[0]
    assert expected.sum() > 0
    recorded = read_traffic(records).table(kind=TrafficKind.POINT_TO_POINT)
    assert (recorded.dense_bytes(4) == expected[0]).all()
