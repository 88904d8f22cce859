"""Device or host, decided by a stand-in driver that declares one address range device memory."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.interposed import PROGRAMS, compile_c, run_ranks
from tests.support.mpi import MpiToolchain
from toposeat.model.traffic import MemorySpace, TrafficKind
from toposeat.profile import read_records

pytestmark = pytest.mark.mpi

RANKS = 2


@pytest.fixture(scope="module")
def driver(build_dir: Path) -> Path:
    path = build_dir / "libcuda.so.1"
    if not path.exists():
        line = ["gcc", "-O1", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(path)]
        subprocess.run([*line, str(PROGRAMS / "fake_cuda.c")], check=True)
    return path


def test_split_by_space(mpi: MpiToolchain, driver: Path, build_dir: Path, tmp_path: Path) -> None:
    program = compile_c(mpi, PROGRAMS / "device_halo.c", build_dir, "-ldl")
    done = run_ranks(mpi, RANKS, [program, driver], tmp_path / "records")
    assert done.returncode == 0, done.stderr
    traffic = read_records(tmp_path / "records")
    for space, messages in ((MemorySpace.DEVICE, 2000), (MemorySpace.HOST, 1000)):
        table = traffic.tables[TrafficKind.POINT_TO_POINT, space]
        assert table.messages.tolist() == [messages] * RANKS
        assert table.bytes.tolist() == [64 * messages] * RANKS
    assert {e.space for e in traffic.collectives} == {MemorySpace.DEVICE}
    for info in traffic.rank_info:
        assert info.device_ordinal == 1
        assert info.device_pci_bus_id == "0000:41:00.0"
        assert info.visible_devices == 4
    # 3000 messages: the answers were cached, by allocation and by page.
    questions = int(done.stdout.split()[0])
    assert 0 < questions < 3000


def test_without_a_runtime(mpi: MpiToolchain, build_dir: Path, tmp_path: Path) -> None:
    program = compile_c(mpi, PROGRAMS / "device_halo.c", build_dir, "-ldl")
    done = run_ranks(mpi, RANKS, [program], tmp_path / "records")
    assert done.returncode == 0, done.stderr
    traffic = read_records(tmp_path / "records")
    assert {space for _, space in traffic.tables} == {MemorySpace.HOST}
    assert all(info.device_ordinal is None for info in traffic.rank_info)
