"""One process on every node, which sends home what it has to say."""

import os
import sys

import pytest

from tests.support.processes import executable
from toposeat.errors import ToposeatError
from toposeat.launch import node_answers, parse_launch_line

VERSION = """#!/bin/sh
[ "$1" = --version ] && { echo 'mpirun (Open MPI) 5.0.11'; exit; }
"""
WAITS = """
while [ "$1" != /bin/sh ]; do shift; done
for node in one two; do "$@" $node; done
exec sleep 1000
"""
ANSWER = (
    "import sys; from toposeat.launch.home_wire import send_home;"
    " sys.exit(not send_home(sys.argv[1], sys.argv[2], b'well'))"
)


def answers_by(folder, script):
    """What two nodes answer by a launcher that is this script."""
    mpirun = executable(folder / "mpirun", VERSION + script)
    hosts = ("127.0.0.2", "127.0.0.3")
    line = parse_launch_line([str(mpirun), "--host", ",".join(hosts), "-n", "2", "./app"])
    return node_answers(
        line, lambda home: [sys.executable, "-c", ANSWER, home], os.environ, hosts=hosts
    )


def test_a_launcher_that_waits_on_when_all_have_answered_is_ended(tmp_path):
    """As prterun does, now and then, for processes that ended soon after their start."""
    assert answers_by(tmp_path, WAITS) == {"one": b"well", "two": b"well"}


def test_a_program_that_a_node_lacks_is_named(tmp_path):
    with pytest.raises(ToposeatError, match=f"asked: {sys.executable} is missing on a node"):
        answers_by(tmp_path, "exit 127")
