"""Records written byte by byte, as the interposer lays them out, for tests without MPI."""

import struct

import numpy as np

HEADER = struct.Struct("<8s5I5i18Q4I9QiI64s64s16s128s2Q256s")
SIZES = {
    **{"slots": 576, "events": 48, "communicators": 64, "runs": 16, "devices": 56},
    "phases": 232,
}
CAPACITIES = {
    "slots": 256,
    "events": 64,
    "communicators": 16,
    "runs": 64,
    "devices": 16,
}
SLOTS = CAPACITIES["slots"]

FIELDS = (
    *("magic", "version", "byte_order", "header_bytes", "state", "flags"),
    *("rank", "world_size", "pid", "thread", "local_rank"),
    *(f"{name}_{part}" for name in SIZES for part in ("offset", "capacity", "stride")),
    *("communicators_used", "runs_used", "phase_mode", "current_phase"),
    *("entered_ticks", "window_ns", "start_ticks", "start_ns", "last_ticks", "last_ns"),
    *("lost_messages", "lost_bytes", "lost_events"),
    *("visible_devices", "reserved", "host", "world", "abi", "library"),
    *("start_cpu_ns", "last_cpu_ns", "cpus"),
)

# kind, space, peer, bytes per message, messages, and the phase if it is not 0
Pair = tuple[int, int, int, int, int] | tuple[int, int, int, int, int, int]
# communicator, operation, space, root, bytes, calls, and the phase if it is not 0
Event = tuple[int, int, int, int, int, int] | tuple[int, int, int, int, int, int, int]
Phase = tuple[int, int, int, int]  # label; begin, end and active in ticks (1 tick = 1 us)
Device = tuple[int, bytes, int, int]  # ordinal, PCI bus id, bytes, uses


class _Image:
    """The bytes of a segment file, with its sections laid out."""

    def __init__(self, phases):
        self.sections = {}
        end = 4096
        for name, size in SIZES.items():
            capacity = CAPACITIES.get(name, max(1, phases))
            self.sections[name] = (end, capacity, size)
            end += -(-capacity * size // 4096) * 4096
        self.data = bytearray(end)

    def put(self, section, place, entry):
        start, _, stride = self.sections[section]
        at = start + place * stride
        self.data[at : at + len(entry)] = entry


def write_record(
    folder,
    rank,
    size,
    *,
    pairs=(),
    events=(),
    communicators=(),
    phases=((0, 1000, 4000, 3000),),
    time=None,
    devices=(),
    state=1,
    flags=0,
    pid=1000,
    thread=-1,
    world=b"job",
    header=None,
):
    """Write one segment; `header` overrides header fields by name.

    `time` is (ticks, calls) by (phase, kind, space).
    """
    image = _Image(len(phases))
    runs = [run for _, members in communicators for run in members]
    values = [
        *(b"TPSREC\r\n", 5, 0x01020304, HEADER.size, state, flags, rank, size, pid, thread, -1),
        *(value for section in image.sections.values() for value in section),
        *(len(communicators), len(runs), 0, 0),
        *(4000, 0, 1000, 10_000, 4000, 3_010_000, 0, 0, 0),
        *(-1, 0, b"node1", world, b"ompi", b"Test MPI 1.0", 0, 0, b""),
    ]
    fields = dict(zip(FIELDS, values, strict=True)) | dict(header or {})
    image.data[: HEADER.size] = HEADER.pack(*fields.values())
    for pair in pairs:
        _put_pair(image, pair)
    for place, event in enumerate(events):
        _put_event(image, place, event)
    first = 0
    for place, (inter, members) in enumerate(communicators):
        count = sum(run[2] for run in members) & 0xFFFFFFFF
        image.put(
            "communicators",
            place,
            struct.pack("<4I48s", count, inter, first, len(members), b"comm"),
        )
        first += len(members)
    for place, run in enumerate(runs):
        image.put("runs", place, struct.pack("<4i", *run, 0))
    for place, (ordinal, pci, length, uses) in enumerate(devices):
        image.put("devices", place, struct.pack("<2QiI32s", uses, length, ordinal, 1, pci))
    _put_phases(image, phases, {(0, 0, 0): (1500, 42)} if time is None else time)
    suffix = "" if thread == -1 else f"-t{thread}"
    path = folder / f"rank-{rank}-{pid}{suffix}.tpsrec"
    path.write_bytes(bytes(image.data))
    return path


def _put_pair(image, pair):
    kind, space, peer, length, messages, phase = (*pair, 0)[:6]
    place = (peer * 8 + kind * 2 + space + 17 * phase) % SLOTS
    histogram = np.zeros(65, dtype="<u8")
    histogram[length.bit_length()] = messages
    key = 1 << 63 | phase << 48 | kind << 40 | space << 32 | peer
    entry = struct.pack("<3Q", key, messages, length * messages) + histogram.tobytes()
    image.put("slots", place, entry)


def _put_event(image, place, event):
    communicator, operation, space, root, length, calls, phase = (*event, 0)[:7]
    entry = struct.pack(
        "<2IH2Bi3Q2I",
        *(1, communicator, operation, space, 0, root, length, calls, length * calls, phase, 0),
    )
    image.put("events", place, entry)


def _put_phases(image, phases, time):
    for number, (label, begin, end, active) in enumerate(phases):
        table = [
            value
            for kind in range(6)
            for space in range(2)
            for value in time.get((number, kind, space), (0, 0))
        ]
        image.put(
            "phases", number, struct.pack("<q3Q24Q2I", label, begin, end, active, *table, 1, 0)
        )
