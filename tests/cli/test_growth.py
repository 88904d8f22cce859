"""What a command does grows with its input, not with the square: counted in calls, not seconds."""

import contextlib
import cProfile
import io
from collections import Counter

import pytest

from toposeat.cli.main import main


def _calls(words):
    """Calls that a command makes, by the name of what is called."""
    profile = cProfile.Profile()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = profile.runcall(main, words)
    assert code == 0, words
    found = Counter()
    for entry in profile.getstats():
        found[getattr(entry.code, "co_name", str(entry.code))] += entry.callcount
    return found


def _page(folder, size):
    place = str(folder / f"{size}.place")
    nodes = ["-t", f"fattree:8:{size}:4", "--node", "dgx-1v"]
    assert main(["map", f"ring:{32 * size}", *nodes, "-o", place, "-f"]) == 0
    return ["report", place, "-o", str(folder / f"{size}.html"), "--force"]


def _pair_list(folder, size):
    pairs = folder / f"{size}.csv"
    rows = "".join(f"{rank},{(rank + 1) % (64 * size)},{rank + 7}\n" for rank in range(64 * size))
    pairs.write_text(f"source,target,bytes\n{rows}")
    return ["report", str(pairs)]


def _topology_conf(folder, size):
    conf = folder / f"{size}.conf"
    leaves = "".join(
        f"SwitchName=leaf{at} Nodes=n{2 * at},\\\nn{2 * at + 1}\n" for at in range(size)
    )
    conf.write_text(f"{leaves}SwitchName=top Switches=leaf[0-{size - 1}]\n")
    return ["map", "ring:8", "-t", f"slurm:{conf}", "--node", "dgx-1v"]


@pytest.mark.parametrize("made", [_page, _pair_list, _topology_conf])
def test_twice_the_input_takes_about_twice_the_calls(made, tmp_path):
    _calls(made(tmp_path, 8))  # what is imported once
    least, half, whole = (_calls(made(tmp_path, size)).total() for size in (8, 32, 64))
    assert whole - least < 2.5 * (half - least) + 20_000, (least, half, whole)


def test_no_relay_is_asked_for_where_no_device_has_a_link_of_its_own():
    assert _calls(["doctor", "-t", "dgx-1v"])["_relay"]
    assert not _calls(["doctor", "-t", "k80-16"])["_relay"]
