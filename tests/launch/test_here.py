"""Whether all ranks of a line run on this node: only then no port is opened."""

import socket
from pathlib import Path

import pytest

from tests.support.tables import rows, variables
from toposeat.launch import LauncherKind, all_here, parse_launch_line

HERE = socket.gethostname()
LINES = Path(__file__).with_name("lines.txt")


@pytest.mark.parametrize(("kind", "line", "environment", "expected"), rows(LINES, "here"))
def test_ranks_are_here_where_nothing_leads_elsewhere(kind, line, environment, expected):
    own = parse_launch_line(line.replace("HERE", HERE).split(), identify=lambda _: kind)
    assert str(all_here(own, variables(environment.replace("HERE", HERE)))) == expected


def test_a_file_of_hosts_is_read(tmp_path):
    hosts = tmp_path / "hosts"
    words = ["mpirun", "-hostfile", str(hosts), "-n", "2", "./a"]
    line = parse_launch_line(words, identify=lambda _: LauncherKind.OPENMPI)
    hosts.write_text(f"{HERE}.cluster slots=4\n")
    assert all_here(line, {})
    hosts.write_text(f"{HERE} slots=4\nother slots=4\n")
    assert not all_here(line, {})
