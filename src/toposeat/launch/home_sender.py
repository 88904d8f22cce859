"""Sending a file home from another node of the job; the other side is `home`."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress

from toposeat.launch.home_frames import (
    DIGEST_BYTES,
    HEADER,
    KEY_VARIABLE,
    NONCE_BYTES,
    VERSION,
    Kind,
    is_proof,
    new_nonce,
    proof,
)
from toposeat.model.trust import peer_is_mine

_TIMEOUT_S = 3.0
_SENDING_S = 30.0


def send_home(
    words: str, name: str, data: bytes, *, environment: Mapping[str, str] | None = None
) -> bool:
    """Send a file to the process that started the job.

    Args:
        words: `Home.words`.
        name: of the file, letters, digits, `.`, `_` and `-`.
        data: its content.
        environment: where the job's key is; this process's own by default.

    Returns:
        Whether it was kept.
    """
    key = (os.environ if environment is None else environment).get(KEY_VARIABLE, "")
    port, _, addresses = words.split(":", 2)
    for address in addresses.split(","):
        with suppress(OSError), _connect(address, int(port)) as peer:
            if not key or not _is_home(peer, key):
                continue  # another service listens there
            peer.settimeout(_SENDING_S)
            encoded = name.encode("ascii")
            _send(peer, Kind.BUNDLE, len(encoded), encoded + data)
            kind, number, _ = _header(peer)
            return (kind, number) == (Kind.KEPT, 1)
    return False


def _connect(address: str, port: int) -> socket.socket:
    if not address.startswith("/"):
        return socket.create_connection((address, port), _TIMEOUT_S)
    peer = socket.socket(socket.AF_UNIX)
    try:
        peer.settimeout(_TIMEOUT_S)
        peer.connect(address)
        if not peer_is_mine(peer):
            raise PermissionError("the socket is another user's")
    except BaseException:
        peer.close()
        raise
    return peer


def _is_home(peer: socket.socket, key: str) -> bool:
    own = new_nonce()
    _send(peer, Kind.HELLO, VERSION, own)
    if _header(peer) != (Kind.CHALLENGE, VERSION, NONCE_BYTES + DIGEST_BYTES):
        return False
    told = _exactly(peer, NONCE_BYTES + DIGEST_BYTES)
    theirs = told[:NONCE_BYTES]
    if not is_proof(told[NONCE_BYTES:], key, b"home", own, theirs):
        return False
    _send(peer, Kind.PROOF, 0, proof(key, b"node", own, theirs))
    return _header(peer)[0] == Kind.WELCOME


def _send(peer: socket.socket, kind: Kind, number: int, data: bytes) -> None:
    peer.sendall(HEADER.pack(kind, number, len(data)) + data)


def _header(peer: socket.socket) -> tuple[int, int, int]:
    kind, number, length = HEADER.unpack(_exactly(peer, HEADER.size))
    return kind, number, length


def _exactly(peer: socket.socket, length: int) -> bytes:
    received = b""
    while len(received) < length:
        part = peer.recv(length - len(received))
        if not part:
            raise ConnectionError("it was closed")
        received += part
    return received
