"""The frames between a job's processes and the one that started it; `launcher/src/home.h`."""

from __future__ import annotations

import struct
from enum import IntEnum

VERSION = 1
HEADER = struct.Struct(">IIQ")  # kind, number, bytes that follow


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
