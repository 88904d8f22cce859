"""The microbenchmark program on real MPIs: who it talks to, what it checks, how it refuses."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.mpi import FEW_MPI_NAMES
from tests.support.processes import ran
from toposeat.errors import ToposeatError
from toposeat.launch import (
    MicrobenchOptions,
    compiled_microbench,
    microbench_arguments,
    parse_launch_line,
    parse_microbench,
)
from toposeat.model.traffic import MemorySpace, TrafficKind
from toposeat.profile import grid_exchange, pattern_traffic, profile_run

pytestmark = pytest.mark.mpi
ONE_MPI = pytest.mark.parametrize("mpi", FEW_MPI_NAMES[1:2], indirect=True)
QUICK = MicrobenchOptions(sizes=(1, 1000, 70000), iterations=2, batch=2, warmup=1)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def launch_words(mpi, ranks):
    return [str(mpi.mpirun), *mpi.run_flags, "-n", str(ranks)]


def program(mpi, cache):
    line = parse_launch_line([*launch_words(mpi, 2), "x"])
    return compiled_microbench(line, {**mpi.env, "TOPOSEAT_CACHE_DIR": str(cache)})


def run(mpi, cache, ranks, *arguments):
    return ran([*launch_words(mpi, ranks), str(program(mpi, cache)), *arguments], env=dict(mpi.env))


@pytest.mark.parametrize("mpi", FEW_MPI_NAMES, indirect=True)
def test_every_size_is_reported(mpi, cache):
    arguments = microbench_arguments(grid_exchange("allreduce:2x2"), QUICK)
    done = run(mpi, cache, 4, *arguments)
    assert done.returncode == 0, done.stderr
    answer = parse_microbench("noise\n" + done.stdout, QUICK)
    assert answer.sizes == QUICK.sizes
    assert [len(samples) for samples in answer.seconds] == [2, 2, 2]
    assert all(0 < seconds < 10 for samples in answer.seconds for seconds in samples)
    assert ("Open MPI" in answer.mpi) == (mpi.family == "openmpi")


@pytest.mark.parametrize(
    ("pattern", "exchanges"),
    [
        ("stencil3d:2x2x2,wrap,diagonals,weight=2.5", 1),
        ("halo:3x2,layers=3", 2),
        ("ring:3", 1),
    ],
)
@ONE_MPI
def test_it_sends_what_the_pattern_says(mpi, cache, pattern, exchanges):
    """Against the traffic that the mapper gets, as the interposer saw the program's."""
    exchange = grid_exchange(pattern)
    options = MicrobenchOptions(sizes=(1001,), iterations=1, batch=exchanges, warmup=0)
    command = [*launch_words(mpi, exchange.ranks), str(program(mpi, cache))]
    traffic, code = profile_run(
        [*command, *microbench_arguments(exchange, options)], environment=mpi.env
    )
    assert code == 0
    seen = traffic.tables[TrafficKind.POINT_TO_POINT, MemorySpace.HOST]
    expected = pattern_traffic(exchange.text(1001)).table()
    for name in ("dense_bytes", "dense_messages"):
        sent = getattr(seen, name)(exchange.ranks)
        assert np.array_equal(sent, (1 + exchanges) * getattr(expected, name)(exchange.ranks)), name


@pytest.mark.parametrize("pattern", ["allgather:2x2", "allreduce:4x1", "bcast:2x2"])
@ONE_MPI
def test_collectives_deliver_what_they_promise(mpi, cache, pattern):
    """Every byte is checked; and a spoiled one is found, so the check can fail."""
    arguments = microbench_arguments(grid_exchange(pattern), QUICK)
    done = run(mpi, cache, 4, *arguments)
    assert done.returncode == 0, done.stderr
    assert parse_microbench(done.stdout, QUICK).sizes == QUICK.sizes
    done = run(mpi, cache, 4, *arguments, "--corrupt", "0")
    assert done.returncode != 0
    assert "wrong data" in done.stderr


@pytest.mark.parametrize("pattern", ["alltoall:2x2", "stencil2d:2x2", "ring:4"])
@ONE_MPI
def test_a_spoiled_byte_is_found(mpi, cache, pattern):
    arguments = microbench_arguments(grid_exchange(pattern), QUICK)
    done = run(mpi, cache, 4, *arguments, "--corrupt", "2")
    assert done.returncode != 0
    assert "wrong data" in done.stderr
    assert "from rank 2" in done.stderr


@ONE_MPI
def test_why_it_cannot_run(mpi, cache):
    arguments = microbench_arguments(grid_exchange("ring:4"), QUICK)
    done = run(mpi, cache, 2, *arguments)
    with pytest.raises(ToposeatError, match="grid has 4 points, this MPI started 2 ranks"):
        parse_microbench(done.stdout, QUICK)
    alone = ran([str(program(mpi, cache)), *arguments], env=dict(mpi.env))
    with pytest.raises(ToposeatError, match="compiled for another MPI"):
        parse_microbench(alone.stdout, QUICK)


@ONE_MPI
def test_no_driver_is_one_line(mpi, cache):
    if any(Path(folder, "libcuda.so.1").exists() for folder in ("/usr/lib", "/usr/lib64")):
        pytest.skip("there is a GPU driver here")
    done = run(mpi, cache, 2, *microbench_arguments(grid_exchange("ring:2"), QUICK), "--buffers",
               "device")  # fmt: skip
    with pytest.raises(ToposeatError, match="no GPU driver"):
        parse_microbench(done.stdout, QUICK)


def test_a_report_that_stops_early():
    with pytest.raises(ToposeatError, match="after 1 of 3 sizes"):
        parse_microbench('{"toposeat_microbench": 1, "bytes": 1, "seconds": [1e-6]}\n{"x', QUICK)


@ONE_MPI
def test_compiled_once(mpi, cache):
    first = program(mpi, cache)
    written = first.stat().st_mtime_ns
    assert program(mpi, cache) == first
    assert first.stat().st_mtime_ns == written


@ONE_MPI
def test_no_compiler(mpi, tmp_path):
    env = {**mpi.env, "TOPOSEAT_CACHE_DIR": str(tmp_path), "TOPOSEAT_MPICC": "/nowhere/mpicc"}
    line = parse_launch_line([*launch_words(mpi, 2), "x"])
    with pytest.raises(ToposeatError, match="/nowhere/mpicc"):
        compiled_microbench(line, env)
