"""Random words to a home, before its greeting and after: it goes on and keeps no such file."""

import random
import struct
import threading

import pytest

from tests.launch.test_home import (
    ANY_NAME,
    BUNDLE,
    CHALLENGE,
    GO,
    HELLO,
    PROOF,
    SEATED,
    SEATS,
    SEATS_OF_FOUR,
    UNSEATED,
    VERSION,
    Peer,
    frame,
)
from toposeat.launch.home import Home
from toposeat.launch.verification import refusal_error, refusal_lines

REPORT = b"# toposeat/report/1\nrank\t0\nseated\tno\nhost\tn1\nrefusal\tcannot\nnote\tx\n"
PRESENT = 13
NAMES = (b"a.seat", b"rank-0.seat", b"../x", b"x" * 128, b".x", b"-", b"\xff", b"a/b", b"x.tpsnode")
INSERTED = (
    b"\t",
    b"\n",
    b"\\x1b[2J",
    b"rank\t99999999999999\n",
    b"\xff\xfe",
    b"\0",
    b"seated\tyes\n",
)


def damaged(draw, report):
    data = bytearray(report)
    for _ in range(draw.randint(0, 6)):
        at = draw.randrange(len(data) + 1)
        how = draw.randrange(4)
        if how == 0 and at < len(data):
            data[at] ^= 1 << draw.randrange(8)
        elif how == 1:
            data[at:at] = draw.choice(INSERTED)
        elif how == 2:
            del data[at:]
        else:
            data[at:at] = data[at : at + 40]
    return bytes(data)


def word(draw):
    """A frame that home may or may not expect."""
    kind = draw.choice([SEATS, SEATED, UNSEATED, BUNDLE, PRESENT, HELLO, GO, draw.getrandbits(32)])
    number = draw.choice([0, 1, 2, 3, 0xFFFFFFFF, draw.getrandbits(32)])
    if kind in (SEATED, UNSEATED):
        return frame(kind, number, damaged(draw, REPORT))
    if kind == SEATS:
        return frame(kind, 0, draw.choice([b"n1", b"n1\nn2", b"\xff", b"*", b"x" * 2000]))
    if kind == PRESENT:
        return frame(kind, number, damaged(draw, b"4 world"))
    if kind == BUNDLE:
        name, content = draw.choice(NAMES), draw.randbytes(draw.randint(0, 300))
        length = draw.choice([len(content)] * 6 + [1 << 35, 1 << 63, 0, 5])
        size = draw.choice([len(name)] * 6 + [0, 129, 1 << 31])
        head = struct.pack(">IIQ", kind, size, (len(name) + length) % (1 << 64))
        return head + name + content
    head = struct.pack(">IIQ", kind, draw.getrandbits(8), draw.choice([0, 1, 1 << 18, 1 << 40]))
    return head + draw.randbytes(draw.randint(0, 50))


def greet(draw, peer):
    how = draw.random()
    if how < 0.8:
        peer.hello()
    elif how < 0.9:
        peer.challenge(draw.randbytes(32))
        peer.send(draw.choice([PROOF, CHALLENGE]), 0, draw.randbytes(32))
    else:
        peer.socket.sendall(draw.choice([draw.randbytes(200), frame(HELLO, VERSION, b"short")]))


@pytest.mark.parametrize("seed", range(12))
def test_random_words_stop_nobody(tmp_path, monkeypatch, seed):
    draw = random.Random(seed)
    failed = []
    monkeypatch.setattr(threading, "excepthook", failed.append)

    def on_stop(verdicts):
        refusal_error(verdicts, 4)
        assert list(refusal_lines(verdicts, 4))

    home = Home(
        tmp_path,
        placement=SEATS_OF_FOUR.encode(),
        ranks=draw.choice([1, 2, 4, None]),
        expected=ANY_NAME,
        on_stop=on_stop,
        strict=draw.random() < 0.3,
    )
    with home:
        peers = []
        for _ in range(60):
            peer = Peer(home)
            peers.append(peer)
            peer.socket.settimeout(5)
            try:
                greet(draw, peer)
                for _ in range(draw.randint(0, 5)):
                    peer.socket.sendall(word(draw))
                if draw.random() < 0.5:
                    peer.socket.settimeout(0.05)
                    peer.socket.recv(4096)
            except (OSError, AssertionError):  # the connection was closed, which is an answer
                pass
            if draw.random() < 0.8:
                peer.socket.close()
        whole = Peer(home).hello()
        whole.send(BUNDLE, 4, b"good" + b"content")
        assert whole.receive()[1] == 1
        for peer in (*peers, whole):
            peer.socket.close()
    assert not failed
    left = {path.name for path in tmp_path.iterdir()}
    assert left <= {"a.seat", "rank-0.seat", "x" * 128, "x.tpsnode", "good"}
    assert (tmp_path / "good").read_bytes() == b"content"
