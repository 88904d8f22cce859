"""The visibility mode that a profile asks for: kept in the placement, used by `run`, and said."""

from dataclasses import replace

import pytest

from tests.report.profile_samples import full_profile
from tests.support.processes import executable
from toposeat.cli.main import main
from toposeat.launch import visibility_of, visibility_words, with_visibility
from toposeat.model.placement import HostDevice, Placement, Seat
from toposeat.model.placement_file import load_placement
from toposeat.model.rank_info import DeviceChoice
from toposeat.model.traffic_file import save_traffic

PLAIN = Placement(
    seats=tuple(Seat(rank=r, local_rank=r, index=1 - r) for r in range(2)),
    devices_of_host={"*": (HostDevice(index=0), HostDevice(index=1))},
)
SHARED = replace(PLAIN, seats=tuple(Seat(rank=r, local_rank=r, index=0) for r in range(2)))


@pytest.mark.parametrize(
    ("placement", "choice", "mode"),
    [
        (PLAIN, DeviceChoice.UNKNOWN, "permute"),
        (PLAIN, DeviceChoice.LOCAL_RANK, "permute"),
        (PLAIN, DeviceChoice.DEVICE_0, "mask"),
        (PLAIN, DeviceChoice.OWN, "cpu-only"),
        (SHARED, DeviceChoice.UNKNOWN, "mask"),
        (SHARED, DeviceChoice.LOCAL_RANK, "mask"),
        (SHARED, DeviceChoice.OWN, "cpu-only"),
    ],
)
def test_the_mode_follows_the_choice(placement, choice, mode):
    found, said = visibility_of(with_visibility(placement, choice), None)
    assert found == mode
    assert bool(said) == (mode != "permute")


def test_what_the_user_asks_for_wins_and_needs_no_words():
    assert visibility_of(with_visibility(PLAIN, DeviceChoice.DEVICE_0), "rotate") == ("rotate", "")


def test_a_rule_of_its_own_is_a_warning_when_the_placement_is_made():
    words = visibility_words(with_visibility(PLAIN, DeviceChoice.OWN))
    assert words.startswith("Warning: the application picks devices by a rule of its own")
    assert "--visibility permute" in words
    assert visibility_words(with_visibility(PLAIN, DeviceChoice.LOCAL_RANK)) == ""


def own_rule():
    profile = full_profile()
    swapped = [
        replace(info, devices=(replace(info.devices[0], ordinal=info.rank ^ 1),))
        for info in profile.rank_info
    ]
    return replace(profile, rank_info=tuple(swapped))


@pytest.mark.parametrize(
    ("profile", "mode", "words"),
    [
        (full_profile(), None, ""),
        (full_profile(device_0=True), "mask", "Visibility mask: the application always takes"),
        (own_rule(), "cpu-only", "Visibility cpu-only: the application picks devices by a rule"),
    ],
    ids=["local-rank", "device-0", "own"],
)
def test_from_the_profile_to_the_line(tmp_path, capsys, profile, mode, words):
    """map keeps the mode in the file; run takes it from there, says so, and can be overruled."""
    save_traffic(profile, tmp_path / "app.prof")
    target = str(tmp_path / "app.place")
    assert main(["map", str(tmp_path / "app.prof"), "-t", "dgx-1v", "-o", target]) == 0
    assert ("Warning" in capsys.readouterr().err) == (mode == "cpu-only")
    assert load_placement(target).metadata["visibility"] == (mode or "permute")
    launcher = executable(tmp_path / "mpirun", "#!/bin/sh\necho 'mpirun (Open MPI) 4.1.4'\n")
    job = ["--", str(launcher), "-n", "4", "true"]
    assert main(["run", "-p", target, "--dry-run", *job]) == 0
    shown = capsys.readouterr()
    assert (f"--visibility {mode}" in shown.out) if mode else ("--visibility" not in shown.out)
    assert shown.err.startswith(words) if words else shown.err == ""
    assert main(["run", "-p", target, "--dry-run", "--visibility", "rotate", *job]) == 0
    shown = capsys.readouterr()
    assert "--visibility rotate" in shown.out
    assert "Visibility" not in shown.err
