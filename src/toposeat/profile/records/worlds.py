"""What the ranks of a job exchanged with processes outside its MPI_COMM_WORLD, by world."""

from __future__ import annotations

from dataclasses import dataclass, field

from toposeat.model.traffic import MemorySpace, TrafficKind, WorldFlow
from toposeat.profile.records.rank_record import OUTSIDE, RankRecord, RecordedWorld
from toposeat.profile.records.record_layout import Kind, WorldOrigin

_KINDS = {
    Kind.POINT_TO_POINT: TrafficKind.POINT_TO_POINT,
    Kind.COLLECTIVE: TrafficKind.COLLECTIVE,
    Kind.ONE_SIDED: TrafficKind.ONE_SIDED,
    Kind.ONE_SIDED_FROM: TrafficKind.ONE_SIDED,
}
_NAMES = {
    WorldOrigin.MET: "met",
    WorldOrigin.SPAWNED: "spawned",
    WorldOrigin.PARENT: "parent",
    WorldOrigin.CONNECTED: "connected",
    WorldOrigin.JOINED: "joined",
}

_Identity = tuple[int, WorldOrigin | None]
_UNKNOWN: _Identity = (0, None)  # there was no room for its description


@dataclass
class MetWorld:
    """One other world, over all ranks that met it."""

    origin: WorldOrigin | None  # None: not known
    size: int = 0  # 0: not known
    command: str = ""
    flows: list[WorldFlow] = field(default_factory=list)

    @property
    def name(self) -> str:
        """How it was met, and what was started."""
        if self.origin is None:
            return "processes outside"
        return f"{_NAMES[self.origin]}: {self.command}" if self.command else _NAMES[self.origin]


class OtherWorlds:
    """The worlds that ranks met, as their records come in.

    Ranks that made a connection together agree on a key, so that it is one world for all of them.
    Worlds without a key (processes that turned up in some communicator, or at the other side of
    MPI_Comm_join) are one world by origin.
    """

    def __init__(self) -> None:
        self._met: dict[_Identity, MetWorld] = {}

    def add(self, record: RankRecord) -> None:
        """Add what one rank met."""
        for world in record.worlds:
            met = self._of(_identity(world))
            met.size = max(met.size, world.size)
            met.command = met.command or world.name
        identities = [_UNKNOWN, *map(_identity, record.worlds)]
        for number, flow in _flows(record):
            self._of(identities[number]).flows.append(flow)

    def worlds(self) -> list[MetWorld]:
        """In the order in which records named them."""
        return list(self._met.values())

    @property
    def flows(self) -> list[WorldFlow]:
        """Those of all worlds."""
        return [flow for met in self._met.values() for flow in met.flows]

    def _of(self, identity: _Identity) -> MetWorld:
        return self._met.setdefault(identity, MetWorld(identity[1]))


def _identity(world: RecordedWorld) -> _Identity:
    return world.key, world.origin


def _flows(record: RankRecord) -> list[tuple[int, WorldFlow]]:
    """The rank's flows with the number of the other world, phases summed up."""
    sums: dict[tuple[int, int, bool], list[int]] = {}
    for row in (record.peer == OUTSIDE).nonzero()[0].tolist():
        place = (int(record.other_world[row]), int(record.kind[row]), bool(record.device[row]))
        cell = sums.setdefault(place, [0, 0])
        cell[0] += int(record.bytes[row])
        cell[1] += int(record.messages[row])
    return [
        (
            number,
            WorldFlow(
                rank=record.rank,
                kind=_KINDS[Kind(kind)],
                space=MemorySpace.DEVICE if device else MemorySpace.HOST,
                bytes=size,
                messages=messages,
                inbound=kind == Kind.ONE_SIDED_FROM,
            ),
        )
        for (number, kind, device), (size, messages) in sums.items()
    ]
