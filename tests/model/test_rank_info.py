"""How an application picks its device, and whether its ranks waited for CPUs or files."""

import itertools
import random

import pytest

from toposeat.model.cpu_list import format_cpu_list
from toposeat.model.rank_info import cpu_doubt, file_doubt
from toposeat.model.traffic import (
    DeviceChoice,
    DeviceUse,
    MemorySpace,
    RankInfo,
    TimeKind,
    TimeShare,
    Traffic,
)

NO = None


def choice(*ranks):
    """Of ranks given as (host, local rank, ordinal, visible devices)."""
    info = tuple(
        RankInfo(rank=r, host=host, local_rank=local, device_ordinal=ordinal, visible_devices=seen)
        for r, (host, local, ordinal, seen) in enumerate(ranks)
    )
    return Traffic(ranks=max(len(ranks), 1), origin="t", tables={}, rank_info=info).device_choice


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ([("a", 0, 0, 4), ("a", 1, 1, 4), ("b", 0, 0, 4)], DeviceChoice.LOCAL_RANK),
        ([("a", r, r % 2, 2) for r in range(4)], DeviceChoice.LOCAL_RANK),  # more ranks than GPUs
        ([("a", 0, 0, NO), ("a", 1, 1, NO)], DeviceChoice.LOCAL_RANK),
        ([("a", 0, 0, 4), ("a", 2, 1, 4), ("a", 1, 2, 4)], DeviceChoice.LOCAL_RANK),  # Open MPI 5
        ([("a", 0, 0, 4), ("a", 2, 2, 4), ("a", 1, 1, 4)], DeviceChoice.LOCAL_RANK),
        ([("b", 0, 0, 4), ("a", NO, 0, 4), ("a", NO, 1, 4)], DeviceChoice.LOCAL_RANK),
        ([("a", 0, 0, 4), ("a", 1, 0, 4)], DeviceChoice.DEVICE_0),
        ([("a", NO, 0, 4), ("a", NO, 0, 4)], DeviceChoice.DEVICE_0),
        ([("a", 0, 1, 2), ("a", 1, 0, 2)], DeviceChoice.OWN),
        ([("a", NO, 1, 2), ("a", NO, 0, 2)], DeviceChoice.UNKNOWN),  # local ranks not known
        ([("a", 0, 0, 1), ("a", 1, 0, 1)], DeviceChoice.UNKNOWN),  # masked by somebody
        ([("a", 0, 0, 4), ("b", 0, 0, 4)], DeviceChoice.UNKNOWN),  # one rank per node: both
        ([("a", 0, NO, 4), ("a", 1, NO, 4)], DeviceChoice.UNKNOWN),
        ([], DeviceChoice.UNKNOWN),
    ],
)
def test_device_choice(ranks, expected):
    assert choice(*ranks) is expected


def test_the_device_with_most_bytes_counts():
    uses = (
        DeviceUse(pci_bus_id=None, ordinal=None, bytes=90),
        DeviceUse(pci_bus_id="0000:01:00.0", ordinal=1, bytes=80),
        DeviceUse(pci_bus_id="0000:02:00.0", ordinal=0, bytes=1),
    )
    assert RankInfo(rank=0, devices=uses, device_ordinal=0).main_ordinal == 1


@pytest.mark.parametrize(
    ("places", "said"),
    [
        (["0-1"] * 8, "8 ranks had 2 CPUs (0-1)"),
        ([*["5"] * 8, *["0-63"] * 8], "8 ranks had 1 CPU (5)"),
        ([*["0-1"] * 2, *["0-3"] * 3], "5 ranks had 4 CPUs (0-3)"),
        (["0-1", "1-2", "0,2", "0-2"], "4 ranks had 3 CPUs (0-2)"),  # only together too many
        ([*["0-1"] * 2, *["0-3"] * 2], ""),
        (["0", "64"], ""),  # two threads of one core
        (["a 0-1"] * 2 + ["b 0-1"] * 2, ""),
        (["a 0-1"] * 2 + ["b 0-1"] * 3, "3 ranks on b had 2 CPUs (0-1)"),
        (["a 0"] * 4 + ["b 0"] * 3, "4 ranks on a had 1 CPU (0), the worst of 2 such hosts"),
        ([""] * 8, ""),  # not known
        ([], ""),
    ],
)
def test_more_ranks_than_cpus(places, said):
    ranks = [
        RankInfo(rank=rank, host=place.rpartition(" ")[0], cpus=place.rpartition(" ")[2])
        for rank, place in enumerate(places)
    ]
    more = ": waiting for a CPU counts as time in MPI"
    assert cpu_doubt(ranks) == (said and said + more)


def test_ranks_that_may_have_a_cpu_each_are_not_doubted():
    draw = random.Random(5)
    doubted = 0
    for _ in range(300):
        sets = [draw.sample(range(4), draw.randint(1, 4)) for _ in range(draw.randint(1, 4))]
        ranks = [RankInfo(rank=r, cpus=format_cpu_list(cpus)) for r, cpus in enumerate(sets)]
        fits = any(len({*each}) == len(sets) for each in itertools.product(*sets))
        doubted += bool(cpu_doubt(ranks))
        assert not (fits and cpu_doubt(ranks))
    assert doubted > 10


def ran(rank, wall_s, cpu_s, file_s=0.0):
    files = TimeShare(kind=TimeKind.FILE, space=MemorySpace.HOST, seconds=file_s, calls=3)
    return RankInfo(rank=rank, wall_s=wall_s, mpi_s=file_s, cpu_s=cpu_s, time=(files,))


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ([ran(0, 10, 9.9), ran(1, 10, 8.1)], ""),
        ([ran(0, 10, 9.9), ran(1, 10, 7.9)], "rank 1 had a CPU for 79 %"),
        ([ran(r, 10, 2 + r) for r in range(3)], "ranks 0-2 had a CPU for 20 % to 40 %"),
        ([ran(0, 10, 2, file_s=8)], ""),  # it blocked in files
        ([ran(0, 10, 2, file_s=7)], "rank 0 had a CPU for 67 %"),
        ([ran(0, 10, 40)], ""),  # four threads
        ([ran(0, 10, None)], ""),
        ([ran(0, 0.05, 0.01)], ""),  # too short to say
        ([ran(0, 0.0, 0.0)], ""),
    ],
)
def test_ranks_that_waited_for_a_cpu(ranks, said):
    more = " of the time outside files: waiting for one may count as time in MPI"
    assert cpu_doubt(ranks) == (said and said + more)


def test_much_of_a_run_in_files_is_said():
    assert file_doubt([ran(0, 10, None, 2), ran(1, 10, None, 0)]) == ""
    assert file_doubt([ran(0, 10, None, 9.6), ran(1, 10, None, 9.8)]) == (
        "MPI-IO takes 97 % of the run: its messages are not recorded"
    )
    assert file_doubt([]) == ""
