"""The frames between a job's processes and the one that started it; `launcher/src/home.h`."""

from __future__ import annotations

import hmac
import secrets
import struct
from enum import IntEnum

VERSION = 2
HEADER = struct.Struct(">IIQ")  # kind, number, bytes that follow
NONCE_BYTES = 32
DIGEST_BYTES = 32
KEY_VARIABLE = "TOPOSEAT_HOME_KEY"


UNKNOWN = 0xFFFFFFFF  # a number that is not known


class Kind(IntEnum):
    """What a frame says."""

    HELLO = 1
    WELCOME = 2
    SEATS = 3
    PLACEMENT = 4
    SEATED = 5
    UNSEATED = 6
    GO = 7
    STOP = 8
    BUNDLE = 9
    KEPT = 10
    CHALLENGE = 11
    PROOF = 12
    PRESENT = 13


def new_nonce() -> bytes:
    """What one side of a greeting draws."""
    return secrets.token_bytes(NONCE_BYTES)


def proof(key: str, who: bytes, client: bytes, home: bytes) -> bytes:
    """That `who`, b"home" or b"node", holds the key, in the greeting with these two nonces."""
    return hmac.digest(key.encode("ascii"), who + client + home, "sha256")


def is_proof(told: bytes, key: str, who: bytes, client: bytes, home: bytes) -> bool:
    """Whether `told` is that proof; the time that this takes tells nothing."""
    return hmac.compare_digest(told, proof(key, who, client, home))
