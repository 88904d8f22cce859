"""Which of a machine's free devices a job should take, and what that leaves."""

from __future__ import annotations

from collections.abc import Iterable

from toposeat.model.evaluation import MappingResult
from toposeat.model.quantity import Premises
from toposeat.model.record import Record
from toposeat.model.topology import Topology
from toposeat.model.transport import Transport


class Left(Record, frozen=True, kw_only=True):
    """How the devices that stay free divide into groups of one size.

    `groups` are those of the best division found, as positions in `topology.devices`;
    `bytes_per_s` is the sum of their ring rates.
    """

    size: int
    groups: tuple[tuple[int, ...], ...]
    bytes_per_s: float
    is_between: bool = False  # the middle between families of an untold processor


class DeviceSet(Record, frozen=True, kw_only=True):
    """Devices for a job, as positions in `topology.devices`, in the order of its local ranks.

    `bytes_per_s` is the rate at which a ring over them carries an all-reduce (infinite for one
    device), `low` and `high` its ends on any machine that the sources allow. `lowest` are the free
    devices with the lowest numbers, `left` is what the others divide into; `sets_tried` of `sets`
    sets were looked at. `lowest_range` are the ends of the lowest. `premises` are those of the
    gain over the lowest numbers.
    """

    devices: tuple[int, ...]
    free: tuple[int, ...]
    bytes_per_s: float
    low: float
    high: float
    lowest: tuple[int, ...]
    lowest_bytes_per_s: float
    left: tuple[Left, ...]
    sets_tried: int
    sets: int
    placement: MappingResult | None = None
    transport: Transport | None = None
    premises: Premises | None = None
    lowest_range: tuple[float, float] = (0.0, 0.0)

    @property
    def is_between(self) -> bool:
        """Whether the processor is untold, and rates are but the middle between families of it."""
        return self.premises is not None and self.premises.between is not None

    @property
    def is_exact(self) -> bool:
        """Whether every set of free devices was looked at."""
        return self.sets_tried == self.sets


def products_in(topology: Topology, devices: Iterable[int]) -> dict[str, tuple[int, ...]]:
    """The devices of each product, by its name; a set that mixes products has more than one.

    Devices whose name no source tells are left out: they may be of any product.
    """
    found: dict[str, tuple[int, ...]] = {}
    for device in devices:
        if name := topology.devices[device].name:
            found[name] = (*found.get(name, ()), device)
    return found
