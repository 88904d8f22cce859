"""Layout of segment files, as in interposer/include/toposeat_record.h, version 2."""

from __future__ import annotations

import struct
from enum import IntEnum

import numpy as np

from toposeat.model.job_folder import RECORD_SUFFIX
from toposeat.model.traffic import HISTOGRAM_BUCKETS, TimeKind, TrafficKind

SUFFIX = RECORD_SUFFIX
HOST_SUFFIX = ".host"  # `rank-R-PID.host` holds the name of the host that started rank R
CAUSE_SUFFIX = ".errno-"  # and its number: an empty file of a rank that has no record
MAX_RANKS = 1 << 21  # beyond any machine with GPUs; bounds what a damaged file can ask for
MAX_THREADS = 64

MAGIC = b"TPSREC\r\n"
VERSION = 3
BYTE_ORDER = 0x01020304
PEER_OUTSIDE = 0x7FFFFFFF  # minus the number of the peer's world
NO_COMMUNICATOR_CODE = 0xFFFFFFFF
MAIN_SEGMENT = -1

OPERATIONS = {
    1: "barrier",
    2: "bcast",
    3: "gather",
    4: "gatherv",
    5: "scatter",
    6: "scatterv",
    7: "allgather",
    8: "allgatherv",
    9: "alltoall",
    10: "alltoallv",
    11: "alltoallw",
    12: "reduce",
    13: "allreduce",
    14: "reduce_scatter",
    15: "reduce_scatter_block",
    16: "scan",
    17: "exscan",
    18: "neighbor_allgather",
    19: "neighbor_allgatherv",
    20: "neighbor_alltoall",
    21: "neighbor_alltoallv",
    22: "neighbor_alltoallw",
}


class State(IntEnum):
    """How far the rank came."""

    RUNNING = 0  # it died, or was killed
    FINALIZED = 1
    ABORTED = 2


class Flag(IntEnum):
    """Bits of `RankRecord.flags`."""

    SPAWNED = 1
    CONCURRENT = 2
    GPU_RUNTIME = 4
    SEVERAL_DEVICES = 8
    LEVEL_ZERO = 16
    INSIDE_RANK = 32
    UNTIMED = 64
    PHASES_MERGED = 128
    NOT_GPU_AWARE = 256


class Kind(IntEnum):
    """Kind of a pair's bytes; FROM means that the flow is from the peer to this rank."""

    POINT_TO_POINT = 0
    COLLECTIVE = 1
    ONE_SIDED = 2
    ONE_SIDED_FROM = 3


# By their numbers: what the bytes of a pair, and the time inside MPI calls, were spent on.
TRAFFIC_KINDS = (
    TrafficKind.POINT_TO_POINT,
    TrafficKind.COLLECTIVE,
    TrafficKind.ONE_SIDED,
    TrafficKind.ONE_SIDED,
)
TIME_KINDS = tuple(TimeKind)


class WorldOrigin(IntEnum):
    """How a rank came to know of another world."""

    MET = 0  # among the members of some communicator
    SPAWNED = 1
    PARENT = 2
    CONNECTED = 3  # MPI_Comm_accept, MPI_Comm_connect
    JOINED = 4


class PhaseMode(IntEnum):
    """Who tells the phases apart."""

    OFF = 0
    PCONTROL = 1
    WINDOWS = 2


SECTIONS = ("slots", "events", "communicators", "runs", "devices", "phases", "worlds")
HEADER = struct.Struct("<8s5I5i21Q4I9QiI64s64s16s128s")
FIELDS = (
    *("magic", "version", "byte_order", "header_bytes", "state", "flags"),
    *("rank", "world_size", "pid", "thread", "local_rank"),
    *(f"{section}_{part}" for section in SECTIONS for part in ("offset", "capacity", "stride")),
    *("communicators_used", "runs_used", "phase_mode", "current_phase"),
    *("entered_ticks", "window_ns", "start_ticks", "start_ns", "last_ticks", "last_ns"),
    *("lost_messages", "lost_bytes", "lost_events"),
    *("visible_devices", "worlds_used", "host", "world", "abi", "library"),
)

SLOT = np.dtype(
    [
        ("key", "<u8"),
        ("messages", "<u8"),
        ("bytes", "<u8"),
        ("histogram", "<u8", (HISTOGRAM_BUCKETS,)),
        ("reserved", "<u8", (4,)),
    ]
)
EVENT = np.dtype(
    [
        ("used", "<u4"),
        ("communicator", "<u4"),
        ("operation", "<u2"),
        ("space", "u1"),
        ("by_class", "u1"),
        ("root", "<i4"),
        ("bytes", "<u8"),
        ("calls", "<u8"),
        ("bytes_total", "<u8"),
        ("phase", "<u4"),
        ("element", "<u4"),
    ]
)
COMMUNICATOR = np.dtype(
    [
        ("size", "<u4"),
        ("inter", "<u4"),
        ("first_run", "<u4"),
        ("run_count", "<u4"),
        ("name", "S48"),
    ]
)
RUN = np.dtype([("first", "<i4"), ("stride", "<i4"), ("count", "<i4"), ("reserved", "<i4")])
DEVICE = np.dtype(
    [("uses", "<u8"), ("bytes", "<u8"), ("ordinal", "<i4"), ("used", "<u4"), ("pci", "S32")]
)
WORLD = np.dtype([("key", "<u8"), ("origin", "<u4"), ("size", "<u4"), ("name", "S256")])
TIME = np.dtype([("ticks", "<u8"), ("calls", "<u8")])
PHASE = np.dtype(
    [
        ("label", "<i8"),
        ("begin_ticks", "<u8"),
        ("end_ticks", "<u8"),
        ("active_ticks", "<u8"),
        ("time", TIME, (len(TIME_KINDS), 2)),
        ("used", "<u4"),
        ("reserved", "<u4"),
    ]
)
TABLES = dict(zip(SECTIONS, (SLOT, EVENT, COMMUNICATOR, RUN, DEVICE, PHASE, WORLD), strict=True))
