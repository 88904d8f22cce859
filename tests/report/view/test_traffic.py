from dataclasses import replace

import numpy as np
import pytest

from tests.report import samples
from toposeat.model.traffic import (
    CollectiveEvent,
    MemorySpace,
    PairTable,
    RankInfo,
    Traffic,
    TrafficKind,
)
from toposeat.report import TextStyle, has_crashed, render_traffic_text

FOUR_RANKS = """\
Verdict   At most 24 % of the run could gain from placement: its ranks spend that in MPI calls,
          waiting included (measured). No placement makes it more than 1.31 times as fast.
Traffic   stencil2d:2x2,weight=3, 4 ranks, 16.0 MiB between devices, 4.00 KiB through the host

kind            memory     bytes  messages  pairs
point-to-point  device  16.0 MiB        80      8
point-to-point  host    4.00 KiB         2      1

heaviest pairs     bytes  messages  of all
0 -> 2          3.00 MiB        10    19 %
1 -> 3          3.00 MiB        10    19 %
2 -> 0          3.00 MiB        10    19 %
3 -> 1          3.00 MiB        10    19 %
0 -> 1          1.00 MiB        10     6 %

bytes sent from device memory, row = sender, log scale up to 3.00 MiB a cell
    0   ▒▒██
    1 ▒▒    ██
    2 ██    ▒▒
    3   ██▒▒

bytes sent from host memory, row = sender, log scale up to 4.00 KiB a cell
    0       ██
    1
    2
    3

message size  point-to-point, device
    1 MiB ..                      40  ██████████████████████████████████████████████████
    2 MiB ..                      40  ██████████████████████████████████████████████████

Time      24 % of 10.0 s in MPI calls (measured; ranks 22 % to 26 %)

all ranks       time  of the run
in MPI calls  9.46 s        24 %
outside MPI   30.5 s        76 %
"""


def test_exact_text():
    traffic = samples.timed(samples.stencil((2, 2), weight=3))
    assert render_traffic_text(traffic) == FOUR_RANKS


def test_ascii_heat_and_bars():
    text = render_traffic_text(samples.stencil((2, 2), weight=3), TextStyle(unicode=False))
    assert text.isascii()
    assert "    1 --    ##" in text or "    1 ==    ##" in text or "    1 ++    ##" in text


def test_nothing_was_sent():
    text = render_traffic_text(Traffic(ranks=3, origin="quiet", tables={}))
    assert text == "Traffic   quiet, 3 ranks, no bytes sent\n"


def test_large_traffic_is_shown_in_blocks_that_fit():
    ranks = 1000
    near = np.arange(ranks - 1)
    table = PairTable.from_pairs(near, near + 1, np.full(ranks - 1, 4096), np.ones(ranks - 1))
    traffic = Traffic(ranks=ranks, origin="ring", tables={samples.DEVICE_P2P: table})
    text = render_traffic_text(traffic, TextStyle(width=80))
    assert "one cell = 16 x 16 ranks" in " ".join(text.split())
    assert max(len(line) for line in text.splitlines()) <= 80


def test_killed_ranks_and_collectives_are_told():
    info = (RankInfo(rank=0, wall_s=1, mpi_s=0.5), RankInfo(rank=1, wall_s=1, finalized=False))
    event = CollectiveEvent(
        communicator=0,
        operation="allreduce",
        rank=0,
        root=-1,
        space=MemorySpace.HOST,
        bytes=1024,
        calls=3,
    )
    traffic = replace(
        samples.stencil((2,)), rank_info=info, collectives=(event,), report=("a doubt",)
    )
    text = render_traffic_text(traffic)
    assert "1 rank did not reach MPI_Finalize: 1" in text
    assert "allreduce host 3 3.00 KiB" in " ".join(text.split())
    assert "- a doubt" in text
    assert "Time      25 % of 1.00 s in MPI calls (measured; ranks 0 % to 50 %)" in text


DEAD = "2 ranks did not reach MPI_Finalize: 0, 1"


@pytest.mark.parametrize(
    ("metadata", "crashed", "words"),
    [
        ({"exit_code": "139"}, True, f"The launcher ended with exit code 139 (SIGSEGV); {DEAD}."),
        ({"exit_code": "59"}, True, f"The launcher ended with exit code 59; {DEAD}."),
        ({"exit_code": "255"}, True, f"The launcher ended with exit code 255; {DEAD}."),
        ({"exit_code": "1", "stopped_by": "SIGINT"}, False, "Ended by SIGINT, exit code 1: counts"),
        ({"exit_code": "143"}, False, "Ended by SIGTERM, exit code 143: counts reach to that mom"),
        ({"exit_code": "124"}, True, f"The launcher ended with exit code 124; {DEAD}."),
        (
            {"exit_code": "124", "command": "timeout 9 mpirun -n 2 ./app"},
            False,
            f"Ended by its time limit, exit code 124: counts reach to that moment; {DEAD}",
        ),
        ({"exit_code": "0"}, False, DEAD),
        ({}, False, DEAD),  # merged records: nobody knows how it ended
    ],
)
def test_how_a_run_ended_is_said_once(metadata, crashed, words):
    info = tuple(RankInfo(rank=r, wall_s=1, mpi_s=0.5, finalized=False) for r in range(2))
    traffic = replace(samples.stencil((2,)), rank_info=info, metadata=metadata)
    assert has_crashed(traffic) == crashed
    for lines in (None, 14):
        text = " ".join(render_traffic_text(traffic, lines=lines).split())
        assert text.count(words) == text.count("MPI_Finalize") == 1
        assert text.startswith("Crash The launcher" if crashed else "Verdict At most 50 %")


def test_an_exit_code_alone_is_no_crash():
    info = (RankInfo(rank=0, wall_s=1, mpi_s=0.5), RankInfo(rank=1, wall_s=1, mpi_s=0.5))
    traffic = replace(samples.stencil((2,)), rank_info=info, metadata={"exit_code": "5"})
    text = render_traffic_text(traffic)
    assert text.startswith("Verdict ")
    assert "The launcher ended with exit code 5" in text


def test_a_rank_with_itself_is_no_pair():
    table = PairTable.from_pairs([0, 0, 1], [0, 1, 1], [10**9, 4096, 10**6], [1, 1, 1])
    kind = TrafficKind.ONE_SIDED
    traffic = Traffic(ranks=2, origin="x", tables={(kind, MemorySpace.DEVICE): table})
    text = " ".join(render_traffic_text(traffic).split())
    assert "heaviest pairs bytes messages of all 0 -> 1 4.00 KiB 1 100 %" in text
    assert "0 -> 0" not in text
    assert "one-sided device 955 MiB 3 1" in text  # one pair
    assert "What an MPI sends for itself, as to set up windows, is not in the count." in text
    assert "955 MiB of this is what ranks send to themselves, on no pair." in text


def test_of_whom_a_verdict_without_device_buffers_is():
    """Below the verdict, of a run; a pattern has no buffers, and a crash no verdict."""
    words = "All buffers were in host memory: this answers for a GPU build that sends the same;"
    traffic = samples.stencil((2, 2))
    host = replace(traffic, tables={samples.HOST_P2P: traffic.tables[samples.DEVICE_P2P]})
    run = replace(host, rank_info=(RankInfo(rank=0, wall_s=1, mpi_s=0.5),))
    assert words in render_traffic_text(run).splitlines()[2]
    crash = replace(
        run, rank_info=(RankInfo(rank=0, finalized=False),), metadata={"exit_code": "139"}
    )
    for other in (host, replace(run, tables=traffic.tables), crash):
        assert words not in render_traffic_text(other)


def test_colour_only_when_asked():
    traffic = samples.stencil((2, 2), weight=3)
    assert "\x1b[" not in render_traffic_text(traffic)
    assert "\x1b[" in render_traffic_text(traffic, TextStyle(colour=True))


def test_a_recognised_pattern_is_said():
    traffic = samples.stencil((4, 4))
    assert "Pattern" not in render_traffic_text(traffic)
    named = replace(traffic, metadata={"pattern": "2-D 4x4 halo"})
    assert "Pattern   2-D 4x4 halo\n" in render_traffic_text(named)


def test_a_summary_answers_first_and_drops_no_warning():
    info = (RankInfo(rank=0, wall_s=1, mpi_s=0.5), RankInfo(rank=1, wall_s=1, finalized=False))
    traffic = replace(
        samples.stencil((4, 4)),
        rank_info=info,
        report=("a doubt", "another", "a third"),
    )
    everything = render_traffic_text(traffic).splitlines()
    summary = render_traffic_text(traffic, lines=14).splitlines()
    assert len(summary) <= 14 < len(everything)
    assert summary[0].startswith("Verdict ")
    assert any(line.startswith("point-to-point") for line in summary)
    assert "- 1 rank did not reach MPI_Finalize: 1" in "\n".join(summary)
    assert summary[-1] == "- a doubt (and 2 more)"
