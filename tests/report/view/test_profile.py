"""Shares of the run and the verdict, against sums by hand."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from tests.model.samples import traffics
from tests.report import samples
from tests.report.profile_samples import full_profile
from toposeat.model.traffic import MemorySpace, TimeKind, TimeShare, Traffic, TrafficKind
from toposeat.report import Section, html_page, profile_json, render_traffic_text, traffic_svg
from toposeat.report.view.traffic import (
    choice_words,
    gain_share,
    gain_words,
    phase_rows,
    time_parts,
)


def test_time_is_split_and_adds_up():
    parts = {part.name: part for part in time_parts(full_profile())}
    assert {name: round(part.share, 3) for name, part in parts.items()} == {
        "point-to-point, device memory": 0.2,
        "completion, device memory": 0.1,
        "collective, host memory": 0.05,
        "other MPI calls": 0.05,
        "outside MPI": 0.6,
    }
    assert parts["point-to-point, device memory"].calls == 400


def test_only_time_on_device_buffers_can_gain_where_there_are_any():
    profile = full_profile()
    assert gain_share(profile) == pytest.approx(0.3)
    assert gain_words(profile) == (
        "At most 30 % of the run could gain from placement: its ranks spend that in MPI calls on"
        " device buffers, waiting included (measured). No placement makes it more than 1.43 times"
        " as fast."
    )


def test_without_device_traffic_all_that_moves_data_can_gain():
    profile = full_profile()
    host = {samples.HOST_P2P: profile.tables[samples.HOST_P2P]}
    assert gain_share(replace(profile, tables=host)) == pytest.approx(0.35)


def test_without_a_split_all_of_mpi_is_the_bound():
    profile = samples.timed(samples.stencil((2, 2)), wall_s=10, mpi_s=2)
    assert gain_share(profile) == pytest.approx(0.215)
    assert [part.name for part in time_parts(profile)] == ["in MPI calls", "outside MPI"]


def test_untimed_and_silent_profiles_say_so():
    untimed = replace(full_profile(), timed=False)
    assert time_parts(untimed) == []
    assert "It is not known what share" in gain_words(untimed)
    assert "Time      not timed" in render_traffic_text(untimed)
    assert "Nothing to gain" in gain_words(Traffic(ranks=2, origin="quiet", tables={}))


def test_threads_in_mpi_at_once_share_the_run():
    """Four threads that wait for the whole run are 100 % of it, not 400 %."""
    kind, space = TimeKind.COMPLETION, MemorySpace.HOST
    share = TimeShare(kind=kind, space=space, seconds=36.0, calls=4)
    other = TimeShare(kind=TimeKind.OTHER, space=space, seconds=4.0, calls=4)
    ranks = tuple(
        replace(r, wall_s=10.0, mpi_s=40.0, time=(share, other)) for r in full_profile().rank_info
    )
    parts = time_parts(replace(full_profile(), rank_info=ranks))
    assert (parts[0].seconds, round(parts[0].share, 3)) == (144.0, 0.9)
    assert sum(part.share for part in parts) == pytest.approx(1)


def test_no_limit_is_told_where_all_could_gain():
    profile = full_profile()
    host = {(TrafficKind.POINT_TO_POINT, MemorySpace.HOST): profile.tables[samples.DEVICE_P2P]}
    kind, space = TimeKind.POINT_TO_POINT, MemorySpace.HOST
    share = TimeShare(kind=kind, space=space, seconds=9.9999, calls=1)
    ranks = tuple(replace(r, wall_s=10.0, mpi_s=9.9999, time=(share,)) for r in profile.rank_info)
    assert gain_words(replace(profile, tables=host, rank_info=ranks)).endswith("(measured).")


def test_phases():
    profile = full_profile()
    assert phase_rows(profile)[1] == ("solve", "5.00 s", "5.00 s", "8.00 MiB", "50 %", "40 %")


def test_long_tables_say_what_they_leave_out():
    profile = full_profile()
    many = replace(profile, phases=profile.phases * 50)
    rows = phase_rows(many)
    assert len(rows) == 32
    assert rows[-1][:2] == ("...", "69 more")


def test_the_choice_of_devices():
    assert "numbered like its local rank" in choice_words(full_profile())
    assert "always takes device 0" in choice_words(full_profile(device_0=True))
    assert choice_words(samples.stencil((2, 2))) == ""


def test_text_has_every_part():
    text = " ".join(render_traffic_text(full_profile()).split())
    for words in (
        "Verdict At most 30 %",
        "bytes sent from device memory",
        "bytes sent from host memory",
        "allreduce host 40 320 B 8 B recursive doubling",
        "completion, device memory 4.00 s 10 % 200",
        "solve 5.00 s 5.00 s 8.00 MiB 50 % 40 %",
        "3 node07 3 0000:03:00.0 3 of 4 1.00 MiB",
    ):
        assert words in text


def test_json_has_every_part():
    form = profile_json(full_profile())
    assert form["time"]["gain_share"] == pytest.approx(0.3)
    assert form["device_choice"] == "local rank"
    assert [phase["label"] for phase in form["phases"]] == ["setup", "solve"]


def test_a_pattern_has_no_verdict():
    assert "Verdict" not in render_traffic_text(samples.stencil((2, 2)))


@settings(max_examples=20, deadline=None)
@given(traffic=traffics())
def test_any_profile_can_be_shown(traffic):
    parts = time_parts(traffic)
    assert all(0 <= part.share <= 1.0001 for part in parts) or _impossible(traffic)
    share = gain_share(traffic)
    assert share is None or 0 <= share <= 1
    assert render_traffic_text(traffic)
    assert traffic_svg(traffic).startswith("<?xml")
    assert html_page([Section(traffic=traffic)])
    assert profile_json(traffic)["ranks"] == traffic.ranks


def _impossible(traffic):
    """Generated times need not make sense: more in MPI than the run took."""
    return any(_inside(info) > info.wall_s for info in traffic.rank_info)


def _inside(info):
    return max(info.mpi_s, sum(part.seconds for part in info.time))
