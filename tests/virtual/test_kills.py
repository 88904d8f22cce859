"""A few of the random kills of kills.py, which makes a thousand."""

from tests.virtual.kills import kill_some


def test_kills_leave_no_process_and_no_half_file(client):
    tally = kill_some(client, 20)
    assert (tally.hung, tally.left, tally.half) == ([], [], [])
    assert sum(tally.killed.values()) == 20
    assert tally.reports > 0
