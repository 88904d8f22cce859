"""What earlier versions took is refused by name, with what to use instead."""

import pytest

from toposeat.cli.dropped import refuse_dropped
from toposeat.cli.main import main


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        (["bench", "ring:4", "-t", "k80-16", "--on", "smpi"], "toposeat map PATTERN"),
        (["bench", "ring:4", "--on=model", "-t", "k80-16"], "toposeat map PATTERN"),
        (["bench", "ring:4", "--", "mpirun"], "toposeat compare PATTERN"),
        (["map", "ring:4", "-t", "k80-16", "--stack", "per-pair"], "toposeat advise"),
        (["map", "ring:4", "-t", "levels:net.csv", "--node", "k80-16"], "topology.conf"),
        (["advise", "-p", "a.place", "-t", "k80-16", "--", "true"], "every setting is clocked"),
        (["map", "ring:4", "-t", "k80-16", "--seed", "2"], "MapOptions(seed=2)"),
        (["doctor", "--config"], "below every answer"),
        (["discover", "--traceback"], "TOPOSEAT_TRACEBACK=1"),
        (["measure", "--protocols", "get,put"], "the receiver reads"),
        (["measure", "-t", "this", "--raw", "f"], "the receiver reads"),
        (["emulate", "-t", "k80-16", "--hide", "3", "true"], "TOPOSEAT_EMULATED_HIDDEN"),
        (["emulate", "--truth=dgx-1v", "-t", "k80-16", "true"], "leave them out"),
        (["discover", "-t", "a", "--format", "nccl", "--rename-by", "index"], "last of several -t"),
        (["tune", "--html", "f.html", "./app"], "toposeat map PROFILE"),
        (["tune", "--solver", "exact", "--", "./app"], "toposeat map PROFILE"),
        (["profile", "--watch", "--", "mpirun", "-n", "2", "true"], "toposeat report F"),
        (["profile", "--watch", "mpirun", "-n", "2", "true"], "toposeat report F"),
        (["profile", "--merge"], "--merge DIR"),
        (["profile", "--merge", "-o", "app.prof"], "--merge DIR"),
        (["profile", "-t", "k80-16", "--", "mpirun", "-n", "2", "true"], "map F -t SRC"),
        (["discover", "-t", "k80-16", "--format", "png"], "-o F.svg"),
        (["report", "a.csv", "--format=treematch"], "report F -o F.csv"),
        (["map", "ring:4", "-t", "k80-16", "--solver", "scotch"], "search of our own"),
        (["map", "ring:4", "-t", "k80-16", "--solver=multilevel"], "`auto` has this search"),
        (["map", "ring:4", "-t", "topograph:f.json", "--node", "k80-16"], "topology.conf"),
        (["export", "a.place", "--launcher", "ray"], "--launcher env"),
        (["export", "a.place", "--launcher", "torchrun-toposeat"], "torchrun-c10d"),
        (["export", "a.place", "--launcher=kubernetes", "--manifest", "m.yaml"], "pods"),
    ],
)
def test_a_dropped_call_says_what_to_use(words, instead, capsys):
    assert main(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    cause, hint = said.err.split("\n", 1)
    assert cause.startswith("error: ")
    assert cause.endswith("is no longer there")
    assert hint.startswith("hint: ")
    assert instead in hint


def test_a_name_that_ends_like_a_dropped_option_is_none():
    refuse_dropped(["advise", "--repeats", "5", "-o", "run-t"])


def test_an_option_of_the_user_s_own_program_is_none(capsys):
    assert main(["profile", "--dry-run", "true", "--watch", "--traceback", "--html", "f"]) == 0
    assert capsys.readouterr().out.endswith("true --watch --traceback --html f\n")
