"""Sending a file home by Python, as the nodes of a job do when they say what they are."""

import re
import socket

from toposeat.launch.home import Home
from toposeat.launch.home_job import Expected
from toposeat.launch.home_wire import send_home

HOSTS = Expected(name=re.compile(r"[a-z0-9.]+"), max_bytes=1 << 20)


def test_a_file_arrives_whole(tmp_path):
    data = bytes(range(256)) * 4096
    with Home(tmp_path, expected=HOSTS) as home:
        assert send_home(home.words, "n1.example", data, environment=home.environment)
    assert (tmp_path / "n1.example").read_bytes() == data


def test_what_home_does_not_take_is_told(tmp_path):
    expected = Expected(name=HOSTS.name, max_bytes=10)
    with Home(tmp_path, expected=expected) as home:
        key = home.environment
        assert not send_home(home.words, "n1", b"x" * 11, environment=key)
        assert not send_home(home.words, "../n1", b"x", environment=key)
        assert not send_home(home.words, "n1", b"x", environment={})
        assert not send_home(home.words, "n1", b"x", environment=dict.fromkeys(key, "wrong"))
    assert list(tmp_path.iterdir()) == []


def test_an_address_that_is_not_home_is_passed_over(tmp_path):
    """Nothing listens at the first address."""
    with socket.socket() as unused, Home(tmp_path, expected=HOSTS) as home:
        unused.bind(("127.0.0.1", 0))
        port, patience, addresses = home.words.split(":", 2)
        words = f"{port}:{patience}:127.255.255.254,{addresses}"
        assert send_home(words, "n1", b"x", environment=home.environment)
    assert (tmp_path / "n1").read_bytes() == b"x"
