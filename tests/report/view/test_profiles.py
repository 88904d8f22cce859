"""Two profiles side by side: figures and moves, in text, in JSON and on the page."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.report.markup import Page, assert_nothing_from_outside
from tests.report.profile_samples import full_profile
from toposeat import report
from toposeat.model.traffic import (
    CollectiveEvent,
    MemorySpace,
    PairTable,
    RankInfo,
    TimeKind,
    TimeShare,
    Traffic,
    TrafficKind,
)
from toposeat.report.text import TextStyle

P2P = (TrafficKind.POINT_TO_POINT, MemorySpace.DEVICE)
MIB = 1 << 20


def profile(
    edges: list[tuple[int, int, int]], hosts: str, *, wall: float = 10.0, inside: float = 2.0
) -> Traffic:
    """MiB over edges, one message each; a letter of `hosts` is the node of a rank."""
    source, target, size = zip(*edges, strict=True)
    table = PairTable.from_pairs(source, target, [n * MIB for n in size], [1] * len(size))
    info = [
        RankInfo(
            rank=rank,
            host=f"node{host}",
            wall_s=wall,
            mpi_s=inside,
            time=(
                TimeShare(
                    kind=TimeKind.POINT_TO_POINT, space=MemorySpace.DEVICE, seconds=inside, calls=3
                ),
            ),
        )
        for rank, host in enumerate(hosts)
    ]
    calls = CollectiveEvent(
        communicator=0, operation="allreduce", rank=0, root=-1, space=MemorySpace.DEVICE,
        bytes=8, calls=40 * len(edges),
    )  # fmt: skip
    return Traffic(
        ranks=len(hosts),
        origin="t",
        tables={P2P: table},
        rank_info=tuple(info),
        collectives=(calls,),
    )


BEFORE = profile([(0, 1, 8), (1, 0, 8), (2, 3, 4)], "aabb")
AFTER = profile([(0, 1, 2), (1, 0, 8), (0, 2, 6), (2, 3, 6)], "aabb", wall=12.0, inside=6.0)


def figures(change: report.ProfileChange) -> dict[str, tuple[Any, Any]]:
    return {
        each.name: (each.before, each.after) for group in change.groups.values() for each in group
    }


def words_of(before: Traffic, after: Traffic) -> str:
    change = report.compare_profiles(before, after, ("a", "b"))
    return " ".join(report.render_profiles_text(change).split())


def test_figures_are_those_of_either_profile() -> None:
    found = figures(report.compare_profiles(BEFORE, AFTER, ("a", "b")))
    assert found["point-to-point, device memory"] == (20 * MIB, 22 * MIB)
    assert found["point-to-point, device memory: messages"] == (3, 4)
    assert found["run, slowest rank"] == (10.0, 12.0)
    assert found["of it in MPI"] == pytest.approx((0.2, 0.5))
    assert found["outside MPI"] == pytest.approx((32.0, 24.0))
    assert found["allreduce, device memory: calls"] == (120, 160)
    assert found["within nodes"] == (20 * MIB, 16 * MIB)
    assert found["between nodes"] == (0, 6 * MIB)
    assert found["partners that a rank sends to"] == (0.75, 1.0)


def test_moves_are_between_pairs_and_nodes() -> None:
    change = report.compare_profiles(BEFORE, AFTER, ("a", "b"))
    ranks, nodes = change.ranks, change.nodes
    assert ranks is not None
    assert nodes is not None
    assert (ranks.pairs_left, ranks.bytes_left) == (1, 6 * MIB)
    assert (ranks.pairs_came, ranks.bytes_came) == (2, 8 * MIB)
    most = [(each.source, each.target, each.before, each.after) for each in ranks.most]
    assert sorted(most[:2]) == [("0", "1", 8 * MIB, 2 * MIB), ("0", "2", 0, 6 * MIB)]
    assert most[2] == ("2", "3", 4 * MIB, 6 * MIB)
    by_node = {(each.source, each.target): each.after - each.before for each in nodes.most}
    assert by_node == {
        ("nodea", "nodea"): -6 * MIB,
        ("nodea", "nodeb"): 6 * MIB,
        ("nodeb", "nodeb"): 2 * MIB,
    }


def test_nodes_of_other_names_are_compared_in_their_order() -> None:
    other = profile([(0, 2, 6)], "ccdd")
    nodes = report.compare_profiles(BEFORE, other, ("a", "b")).nodes
    assert nodes is not None
    assert ("nodea / nodec", "nodeb / noded") in {(e.source, e.target) for e in nodes.most}
    elsewhere = profile([(0, 2, 6)], "abcd")
    assert report.compare_profiles(BEFORE, elsewhere, ("a", "b")).nodes is None


def test_the_text_answers_first() -> None:
    words = words_of(BEFORE, AFTER)
    assert words.startswith(
        "Verdict bytes 20.0 MiB to 22.0 MiB (+10 %); run 10.0 s to 12.0 s (+20 %), in MPI 20 % to"
        " 50 % Grew point-to-point, device memory +16.0 s (+200 %); point-to-point, device memory"
        " +2.00 MiB (+10 %); allreduce, device memory: calls +40 (+33 %); between nodes +6.00"
        " MiB (new) Shrank outside MPI -8.00 s (-25 %); within nodes -4.00 MiB (-20 %)"
    )
    assert "6.00 MiB left 1 pair of ranks, 8.00 MiB came to 2 pairs of ranks" in words
    assert "rank 0 -> 2 0 B 6.00 MiB new" in words
    assert "nodea -> nodeb 0 B 6.00 MiB new" in words
    assert "of it in MPI 20 % 50 % +30 points" in words


def test_other_numbers_of_ranks_are_compared_by_rank() -> None:
    larger = profile([(rank, rank ^ 1, 4) for rank in range(16)], 8 * "a" + 8 * "b", wall=5.0)
    change = report.compare_profiles(BEFORE, larger, ("a", "b"))
    assert change.ranks is None
    words = " ".join(report.render_profiles_text(change).split())
    assert words.startswith(
        "Verdict 4 ranks to 16; bytes of a rank 5.00 MiB to 4.00 MiB (-20 %);"
        " run 10.0 s to 5.00 s (-50 %)"
    )
    assert "point-to-point, device memory 20.0 MiB 64.0 MiB -20 %" in words
    assert "pairs are not compared one by one" in words


def test_nothing_changed() -> None:
    words = words_of(BEFORE, BEFORE)
    assert words.startswith(
        "Verdict bytes 20.0 MiB in both; run 10.0 s in both, in MPI 20 % Before"
    )
    assert "Grew" not in words
    assert "No change: pairs of ranks carry the same bytes in both." in words


def test_what_is_not_timed_is_said() -> None:
    untimed = replace(AFTER, timed=False)
    words = words_of(BEFORE, untimed)
    assert "Times are not compared: none in b." in words
    assert "run" not in words.split("Before")[0]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_number_is_cut(width: int) -> None:
    change = report.compare_profiles(full_profile(), AFTER, ("a", "b"))
    text = report.render_profiles_text(change, TextStyle(width=width))
    wide = report.render_profiles_text(change, TextStyle(width=400))
    assert max(map(len, text.splitlines())) <= width
    numbers = [word for word in wide.split() if any(map(str.isdigit, word))]
    assert not [word for word in numbers if word not in text.split()]


def test_json_has_what_the_text_has() -> None:
    change = report.compare_profiles(BEFORE, AFTER, ("a", "b"))
    document = json.loads(report.json_text(report.profile_change_json(change)))
    assert document["schema"] == "toposeat/profile-comparison/1"
    assert [each["ranks"] for each in document["profiles"]] == [4, 4]
    assert document["ranks"]["bytes_came"] == 8 * MIB
    (run, *_) = document["figures"]["Time"]
    assert (run["name"], run["unit"], run["before"], run["after"]) == (
        "run, slowest rank", "seconds", 10.0, 12.0,
    )  # fmt: skip


def test_the_page_shows_both_on_one_scale() -> None:
    evil = "<script>alert(1)</script>"
    change = report.compare_profiles(BEFORE, AFTER, ("a", evil))
    html = report.html_page([report.Section(change=change)])
    assert_nothing_from_outside(html)
    page = Page(html)
    assert "bytes 20.0 MiB to 22.0 MiB (+10 %)" in page.words
    assert "before: a, 4 ranks" in page.words
    looks = {
        attrs.get("class", "")
        for tag, attrs in page.tags
        if tag == "rect" and (attrs.get("class") or "").startswith("heat-") and "x" in attrs
    }
    assert {"heat-7", "heat-1"} <= looks
    svg = report.profile_change_svg(change)
    assert_nothing_from_outside(svg)
    assert "after: " in svg
