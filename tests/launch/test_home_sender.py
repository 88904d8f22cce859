"""Sending a file home by Python, as the nodes of a job do when they say what they are."""

from __future__ import annotations

import socket
from pathlib import Path

from toposeat.launch.home import Home
from toposeat.launch.home_sender import send_home


def test_a_file_arrives_whole(tmp_path: Path) -> None:
    data = bytes(range(256)) * 4096
    with Home(tmp_path) as home:
        assert send_home(home.words, "n1.example", data)
    assert (tmp_path / "n1.example").read_bytes() == data


def test_what_home_does_not_take_is_told(tmp_path: Path) -> None:
    with Home(tmp_path, max_bytes=10) as home:
        assert not send_home(home.words, "n1", b"x" * 11)
        assert not send_home(home.words, "../n1", b"x")
        port, _, addresses = home.words.split(":", 2)
        assert not send_home(f"{port}:wrong:{addresses}", "n1", b"x")
    assert list(tmp_path.iterdir()) == []


def test_an_address_that_is_not_home_is_passed_over(tmp_path: Path) -> None:
    """Nothing listens at the first address."""
    with socket.socket() as unused, Home(tmp_path) as home:
        unused.bind(("127.0.0.1", 0))
        port, token, addresses = home.words.split(":", 2)
        assert send_home(f"{port}:{token}:127.255.255.254,{addresses}", "n1", b"x")
    assert (tmp_path / "n1").read_bytes() == b"x"
