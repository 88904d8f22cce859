"""The home of a job: who may speak, what is kept, and when ranks are told to start."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from toposeat.errors import ToposeatError
from toposeat.launch.home import Home
from toposeat.launch.refusal import refusal_error, refusal_lines
from toposeat.launch.start_decision import Decision, Verdicts

HELLO, WELCOME, SEATS, PLACEMENT, SEATED, UNSEATED, GO, STOP, BUNDLE, KEPT = range(1, 11)
REPORT = b"# toposeat/report/1\nrank\t0\nseated\tyes\n"
NO_DEVICE = b"# toposeat/report/1\nseated\tno\nrefusal\tno such device\nrefusal\tand more\n"


def frame(kind: int, number: int = 0, data: bytes = b"") -> bytes:
    return struct.pack(">IIQ", kind, number, len(data)) + data


class Peer:
    """One connection to a home, made of nothing but its words."""

    def __init__(self, home: Home) -> None:
        port, self.token, addresses = home.words.split(":", 2)
        self.socket = socket.create_connection((addresses.split(",")[0], int(port)), timeout=10)

    def send(self, kind: int, number: int = 0, data: bytes = b"") -> None:
        self.socket.sendall(frame(kind, number, data))

    def receive(self) -> tuple[int, int, bytes]:
        kind, number, length = struct.unpack(">IIQ", self._exactly(16))
        return kind, number, self._exactly(length)

    def hello(self) -> Peer:
        self.send(HELLO, 1, self.token.encode())
        assert self.receive() == (WELCOME, 1, b"")
        return self

    def is_closed(self) -> bool:
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _exactly(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            part = self.socket.recv(length - len(data))
            assert part, "the connection was closed"
            data += part
        return data


Connect = Callable[[Home], Peer]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Connections that are closed when the test ends."""
    with ExitStack() as stack:

        def one(home: Home) -> Peer:
            peer = Peer(home)
            stack.callback(peer.socket.close)
            return peer

        yield one


def home_of(folder: Path, **options: object) -> Home:
    return Home(folder, placement=b"the seats", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "first",
    [
        frame(HELLO, 1, b"0" * 32),
        frame(HELLO, 1, b"0" * 31),
        frame(HELLO, 2, b"0" * 32),
        struct.pack(">IIQ", HELLO, 1, 1 << 60),
        frame(SEATS),
        frame(BUNDLE, 4, b"name and bytes"),
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
def test_who_does_not_show_the_token_first_is_shown_the_door(
    connect: Connect, tmp_path: Path, first: bytes
) -> None:
    with home_of(tmp_path) as home:
        peer = connect(home)
        peer.socket.sendall(first)
        assert peer.is_closed()
        assert connect(home).hello()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "second",
    [
        struct.pack(">IIQ", SEATED, 0, 1 << 40),
        struct.pack(">IIQ", BUNDLE, 0, 10),
        struct.pack(">IIQ", BUNDLE, 500, 1000),
        struct.pack(">IIQ", BUNDLE, 4, 1 << 60),
        struct.pack(">IIQ", 77, 0, 0),
        frame(SEATS, 0, b"x"),
    ],
)
def test_amounts_without_measure_close_the_connection(
    connect: Connect, tmp_path: Path, second: bytes
) -> None:
    with home_of(tmp_path, ranks=1) as home:
        peer = connect(home).hello()
        peer.socket.sendall(second)
        assert peer.is_closed()
        assert home.decision is Decision.OPEN


def test_the_placement_goes_to_whoever_asks(connect: Connect, tmp_path: Path) -> None:
    with home_of(tmp_path) as home:
        peer = connect(home).hello()
        peer.send(SEATS)
        assert peer.receive() == (PLACEMENT, 1, b"the seats")
    with Home(tmp_path) as home:
        peer = connect(home).hello()
        peer.send(SEATS)
        assert peer.receive() == (PLACEMENT, 0, b"")


def test_a_bundle_arrives_whole_or_not_at_all(connect: Connect, tmp_path: Path) -> None:
    content = bytes(range(256)) * 4096
    with home_of(tmp_path) as home:
        whole, torn = connect(home).hello(), connect(home).hello()
        whole.send(BUNDLE, 8, b"rank.rec" + content)
        assert whole.receive() == (KEPT, 1, b"")
        torn.socket.sendall(frame(BUNDLE, 8, b"torn.rec" + content)[:5000])
        torn.socket.close()
    assert [path.name for path in tmp_path.iterdir()] == ["rank.rec"]
    assert (tmp_path / "rank.rec").read_bytes() == content


@pytest.mark.parametrize(
    "name", [b"../evil", b"/etc/evil", b".hidden", b"a/b", b"a\0b", b"..", b"\xff\xfe", b"a b"]
)
def test_names_that_lead_elsewhere_are_not_kept(
    connect: Connect, tmp_path: Path, name: bytes
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with home_of(folder) as home:
        peer = connect(home).hello()
        peer.send(BUNDLE, len(name), name + b"content")
        assert peer.receive() == (KEPT, 0, b"")
    assert list(folder.iterdir()) == []
    assert list(tmp_path.iterdir()) == [folder]


def test_all_bundles_together_are_bounded(connect: Connect, tmp_path: Path) -> None:
    with home_of(tmp_path, max_bytes=1000) as home:
        peer = connect(home).hello()
        answers = []
        for name in (b"a", b"b", b"c"):
            peer.send(BUNDLE, 1, name + b"x" * 400)
            answers.append(peer.receive()[1])
    assert answers == [1, 1, 0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_nobody_starts_before_the_last_rank_was_heard(connect: Connect, tmp_path: Path) -> None:
    with home_of(tmp_path, ranks=3) as home:
        first, second = connect(home).hello(), connect(home).hello()
        first.send(SEATED, 0, REPORT)
        first.send(SEATED, 1, REPORT)
        first.socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            first.receive()
        second.send(SEATED, 2, REPORT)
        first.socket.settimeout(10)
        assert first.receive()[0] == second.receive()[0] == GO
        assert home.decision is Decision.GO
        # a rank that is started anew, as torchrun does
        second.send(SEATED, 2, REPORT)
        assert second.receive()[0] == GO
    assert {path.name for path in tmp_path.iterdir()} == {f"rank-{i}.seat" for i in range(3)}


def test_one_rank_that_cannot_be_seated_stops_all_and_is_named(
    connect: Connect, tmp_path: Path
) -> None:
    told: list[Verdicts] = []
    with home_of(tmp_path, ranks=4, on_stop=told.append) as home:
        first, second = connect(home).hello(), connect(home).hello()
        first.send(SEATED, 0, REPORT)
        second.send(UNSEATED, 3, NO_DEVICE)
        first.send(UNSEATED, 1, NO_DEVICE)
        assert first.receive()[0] == second.receive()[0] == STOP
        assert len(told) == 1
        late = connect(home).hello()
        late.send(SEATED, 2, REPORT)
        assert late.receive()[0] == STOP
    assert home.decision is Decision.STOP
    assert refusal_lines(told[0], 4) == [
        "Not started: 2 of 4 ranks cannot be seated as placed",
        "  ranks 1,3: no such device",
    ]
    error = refusal_error(told[0], 4)
    assert isinstance(error, ToposeatError)
    assert error.message == "no rank was started: 2 of 4 ranks cannot be seated as placed"


def test_many_causes_are_ten_lines_at_most() -> None:
    texts = {i: f"# toposeat/report/1\nseated\tno\nrefusal\tcause {i}\n" for i in range(40)}
    lines = refusal_lines(
        Verdicts(reports=texts, unseated=frozenset(texts), nameless=("damaged",)), 40
    )
    assert len(lines) == 10
    assert lines[-1].endswith("causes more")


@pytest.mark.parametrize("strict", [False, True])
def test_ranks_that_never_come_are_waited_for_with_patience(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strict: bool
) -> None:
    monkeypatch.setattr("toposeat.launch.start_decision.PATIENCE_S", 0.3)
    monkeypatch.setattr("toposeat.launch.start_decision._STRICT_PATIENCE_S", 0.3)
    with home_of(tmp_path, ranks=2, strict=strict) as home:
        peer = connect(home).hello()
        peer.send(SEATED, 1, REPORT)
        assert peer.receive()[0] == (STOP if strict else GO)
    if strict:
        assert refusal_lines(home.verdicts, 2)[1:] == [
            "  rank 0: was not heard: its node cannot reach this host"
        ]


def test_who_says_nothing_is_dropped(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toposeat.launch.home._GREETING_S", 0.1)
    with home_of(tmp_path) as home:
        assert connect(home).is_closed()


def test_it_ends_at_once_whatever_is_connected(connect: Connect, tmp_path: Path) -> None:
    start = time.monotonic()
    with home_of(tmp_path, ranks=2) as home:
        peers = [connect(home), connect(home).hello(), connect(home).hello()]
        peers[1].send(SEATED, 0, REPORT)
        peers[2].socket.sendall(struct.pack(">IIQ", BUNDLE, 3, 1 << 20) + b"abcd")
    assert time.monotonic() - start < 5
    assert all(peer.is_closed() for peer in peers)
    assert not list(tmp_path.glob(".*"))
