"""Sending a file home from another node of the job; the other side is `home`."""

from __future__ import annotations

import socket
from contextlib import suppress

from toposeat.launch.home_frames import HEADER, VERSION, Kind

_TIMEOUT_S = 3.0
_SENDING_S = 30.0


def send_home(words: str, name: str, data: bytes) -> bool:
    """Send a file to the process that started the job.

    Args:
        words: `Home.words`.
        name: of the file, letters, digits, `.`, `_` and `-`.
        data: its content.

    Returns:
        Whether it was kept.
    """
    port, token, addresses = words.split(":", 2)
    for address in addresses.split(","):
        with suppress(OSError), socket.create_connection((address, int(port)), _TIMEOUT_S) as peer:
            _send(peer, Kind.HELLO, VERSION, token.encode("ascii"))
            if _answer(peer)[0] != Kind.WELCOME:
                continue  # another service listens there
            peer.settimeout(_SENDING_S)
            encoded = name.encode("ascii")
            _send(peer, Kind.BUNDLE, len(encoded), encoded + data)
            return _answer(peer) == (Kind.KEPT, 1)
    return False


def _send(peer: socket.socket, kind: Kind, number: int, data: bytes) -> None:
    peer.sendall(HEADER.pack(kind, number, len(data)) + data)


def _answer(peer: socket.socket) -> tuple[int, int]:
    received = b""
    while len(received) < HEADER.size:
        part = peer.recv(HEADER.size - len(received))
        if not part:
            return 0, 0
        received += part
    kind, number, _ = HEADER.unpack(received)
    return kind, number
