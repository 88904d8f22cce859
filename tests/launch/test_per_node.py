"""One process on every node, which sends home what it has to say."""

import os
import sys

from tests.support.processes import executable
from toposeat.launch import node_answers, parse_launch_line

WAITS = """#!/bin/sh
[ "$1" = --version ] && { echo 'mpirun (Open MPI) 5.0.11'; exit; }
while [ "$1" != /bin/sh ]; do shift; done
for node in one two; do "$@" $node; done
exec sleep 1000
"""
ANSWER = (
    "import sys; from toposeat.launch.home_wire import send_home;"
    " sys.exit(not send_home(sys.argv[1], sys.argv[2], b'well'))"
)


def test_a_launcher_that_waits_on_when_all_have_answered_is_ended(tmp_path):
    """As prterun does, now and then, for processes that ended soon after their start."""
    mpirun = executable(tmp_path / "mpirun", WAITS)
    hosts = ("127.0.0.2", "127.0.0.3")
    line = parse_launch_line([str(mpirun), "--host", ",".join(hosts), "-n", "2", "./app"])
    answers = node_answers(
        line, lambda home: [sys.executable, "-c", ANSWER, home], os.environ, hosts=hosts
    )
    assert answers == {"one": b"well", "two": b"well"}
