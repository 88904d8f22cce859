"""A profile with everything in it: both memories, times by kind, phases, devices."""

from dataclasses import replace

from tests.report import samples
from toposeat.model.traffic import (
    CollectiveEvent,
    DeviceUse,
    MemorySpace,
    PairTable,
    Phase,
    RankInfo,
    TimeKind,
    TimeShare,
)

DEVICE, HOST = MemorySpace.DEVICE, MemorySpace.HOST


def rank_info(rank, *, ordinal=None):
    """Ten seconds, of which 3 s on device buffers (1 s waiting), 0.5 s host, 0.5 s other calls."""
    shares = [
        (TimeKind.POINT_TO_POINT, DEVICE, 2.0, 100),
        (TimeKind.COMPLETION, DEVICE, 1.0, 50),
        (TimeKind.COLLECTIVE, HOST, 0.5, 10),
        (TimeKind.OTHER, HOST, 0.5, 7),
    ]
    number = rank if ordinal is None else ordinal
    return RankInfo(
        rank=rank,
        host="node07",
        pid=100 + rank,
        wall_s=10.0,
        mpi_s=4.0,
        visible_devices=4,
        local_rank=rank,
        time=tuple(TimeShare(kind=k, space=s, seconds=t, calls=n) for k, s, t, n in shares),
        devices=(DeviceUse(pci_bus_id=f"0000:0{rank}:00.0", ordinal=number, bytes=2**20),),
    )


def full_profile(*, device_0=False):
    """Four ranks of a 2-D stencil on devices, with host traffic beside it."""
    traffic = samples.timed(samples.stencil((2, 2), weight=3))
    table = traffic.tables[samples.DEVICE_P2P]
    half = PairTable.from_pairs(table.source, table.target, table.bytes // 2, table.messages // 2)
    phases = tuple(
        Phase(
            index=number,
            label=label,
            begin_s=5.0 * number,
            end_s=5.0 * number + 5,
            tables={samples.DEVICE_P2P: half},
            mpi_s=8.0,
            active_s=20.0,
        )
        for number, label in enumerate(["setup", "solve"])
    )
    event = CollectiveEvent(
        communicator=0, operation="allreduce", rank=0, root=-1, space=HOST, bytes=8, calls=40,
        algorithm="recursive doubling",
    )  # fmt: skip
    return replace(
        traffic,
        rank_info=tuple(rank_info(r, ordinal=0 if device_0 else None) for r in range(4)),
        phases=phases,
        collectives=(event,),
    )
