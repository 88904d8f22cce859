"""Sending a file home from another node of the job; the other side is `home`."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress

_HEADER = struct.Struct(">IIQ")
_VERSION = 1
_HELLO, _WELCOME, _BUNDLE, _KEPT = 1, 2, 9, 10  # `launcher/src/home.h`
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
            _send(peer, _HELLO, _VERSION, token.encode("ascii"))
            if _answer(peer)[0] != _WELCOME:
                continue  # another service listens there
            peer.settimeout(_SENDING_S)
            encoded = name.encode("ascii")
            _send(peer, _BUNDLE, len(encoded), encoded + data)
            return _answer(peer) == (_KEPT, 1)
    return False


def _send(peer: socket.socket, kind: int, number: int, data: bytes) -> None:
    peer.sendall(_HEADER.pack(kind, number, len(data)) + data)


def _answer(peer: socket.socket) -> tuple[int, int]:
    received = b""
    while len(received) < _HEADER.size:
        part = peer.recv(_HEADER.size - len(received))
        if not part:
            return 0, 0
        received += part
    kind, number, _ = _HEADER.unpack(received)
    return kind, number
