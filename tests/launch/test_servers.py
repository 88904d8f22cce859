"""Lines of vLLM and SGLang: the devices that they take, and the pattern of their ranks."""

import shlex
from pathlib import Path

import pytest

from tests.support.tables import rows
from toposeat.errors import UsageError
from toposeat.launch import parse_launch_line, run_placed, server_of

LINES = Path(__file__).with_name("lines.txt")


@pytest.mark.parametrize(("text", "pattern"), rows(LINES, "servers"))
def test_a_line_says_how_its_ranks_talk(text, pattern):
    server = server_of(parse_launch_line(shlex.split(text)))
    assert server.pattern == pattern


@pytest.mark.parametrize("text", [text for (text,) in rows(LINES, "no servers")])
def test_what_a_line_does_not_say_is_not_known(text):
    assert server_of(parse_launch_line(shlex.split(text))) is None


@pytest.mark.parametrize(("text", "cause", "hint"), rows(LINES, "servers refused"))
def test_sizes_that_do_not_fit_the_list_are_refused_before_the_start(text, cause, hint, place):
    """Case 15: SGLang would have taken devices 2 and 3 of a list of two."""
    with pytest.raises(UsageError) as refused:
        run_placed(shlex.split(text), *place(2))
    assert cause in refused.value.message
    assert hint in refused.value.hint


def test_sizes_that_fit_are_started(place):
    line = shlex.split("python -m sglang.launch_server --model-path m --tp 2 --base-gpu-id 0")
    assert run_placed(line, *place(2), dry_run=True).launched[-8:] == tuple(line[-8:])
