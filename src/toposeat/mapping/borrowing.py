"""Which lent device each rank borrows: the nearest free ones, by what the network model predicts.

What is known of a way is the round trip and the rate between two hosts; what a rank will do over it
weighs both. The sum over all ranks is least: an assignment problem, solved exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from toposeat.evaluation import network_arrays
from toposeat.mapping.joined import MOST_DEVICES, join_hosts
from toposeat.model.hostlist import short_name
from toposeat.model.lent import BorrowedSeat, DeviceUse, LentDevice, Price, Way
from toposeat.model.network import Network
from toposeat.model.topology import ANY_HOST, Device, Topology

# A call that waits, without the network: two processes, two changes of context each. Least of 20 on
# a quiet virtual machine of two CPUs (Linux 6): 18 to 28 us over a Unix socket, 26 to 29 over TCP.
_SOCKET_S, _TCP_S = 20e-6, 26e-6
_COPY_BYTES_PER_S = 4e9
# Where nothing is known of a program: a transfer that takes about as long as a hundred calls.
USUAL = DeviceUse(bytes_to=1 << 20, bytes_from=1 << 20, calls=100, waits=10)


class Ways:
    """The ways between hosts, as far as they are known.

    Args:
        network: with these hosts alone, by the names that jobs have for them; None: unknown.
    """

    def __init__(self, network: Network | None) -> None:
        self._position: dict[str, int] = {}
        if network is None or len(network.hosts) > MOST_DEVICES:
            return
        device = Device(id="proxy", index=0)
        node = Topology(name="node", origin="a lent device", devices=(device,))
        arrays = network_arrays(join_hosts(network, [node] * len(network.hosts)))
        self._latency_s, self._rate = arrays.latency(), arrays.isolated_rate()
        self._position = {short_name(name): at for at, name in enumerate(network.host_names)}

    def between(self, here: str, there: str) -> Way | None:
        """None where the network does not know one of them."""
        if here != ANY_HOST and short_name(here) == short_name(there):
            return Way(round_trip_s=_SOCKET_S, bytes_per_s=_COPY_BYTES_PER_S)
        ends = [self._position.get(short_name(each)) for each in (here, there)]
        if None in ends:
            return None
        pair = ends[0] * len(self._position) + ends[1]  # type: ignore[operator]
        latency_s = float(self._latency_s[pair])
        rate = min(float(self._rate[pair]), _COPY_BYTES_PER_S)
        return Way(round_trip_s=_TCP_S + 2 * latency_s, bytes_per_s=rate)


@dataclass(frozen=True)
class Choice:
    """For each rank its devices by their positions, and whether some are given twice."""

    devices_of_rank: tuple[tuple[int, ...], ...]
    is_shared: bool


def nearest_devices(
    hosts: Sequence[str],
    devices: Sequence[LentDevice],
    ways: Ways,
    *,
    each: int = 1,
    uses: Sequence[DeviceUse] = (),
) -> Choice:
    """Give every rank `each` devices, the nearest first.

    The first devices of all ranks are the best whole, then the second ones of what is left, and so
    on. A device is given to several ranks only where there are too few, and then to as few as can
    be. Unknown ways come after all known ones, in the order of the list.

    Args:
        hosts: of every rank; `ANY_HOST` where it is not known.
        devices: that are free.
        ways: between hosts.
        each: devices of one rank, at most as many as there are.
        uses: what every rank does; the usual where it is not known.
    """
    uses = uses or [USUAL] * len(hosts)
    cost = _costs(hosts, devices, ways, uses)
    copies = -(-len(hosts) * each // len(devices))
    column = np.repeat(np.arange(len(devices)), copies)
    owned: list[list[int]] = [[] for _ in hosts]
    alike = _alike(hosts, uses)
    for _ in range(each):
        table = cost.copy()
        for rank, own in enumerate(owned):
            table[rank, own] = cost.max() * len(hosts) * 2 + 1  # not twice
        taken = assigned(table[:, column])
        _in_list_order(alike, column, taken)
        for rank, at in enumerate(taken):
            owned[rank].append(int(column[at]))
        column = np.delete(column, taken)
    return Choice(tuple(map(tuple, owned)), copies > 1)


def _costs(
    hosts: Sequence[str], devices: Sequence[LentDevice], ways: Ways, uses: Sequence[DeviceUse]
) -> NDArray[np.float64]:
    known: dict[tuple[str, str], Way | None] = {}
    cost = np.empty((len(hosts), len(devices)))
    for rank, (host, use) in enumerate(zip(hosts, uses, strict=True)):
        for at, device in enumerate(devices):
            pair = host, device.host
            if pair not in known:
                known[pair] = ways.between(*pair)
            way = known[pair]
            cost[rank, at] = np.nan if way is None else way.seconds(use)
    unknown = np.isnan(cost)
    beyond = 2 * np.nanmax(cost) if not unknown.all() else 1.0
    return np.where(unknown, beyond, cost)


def _alike(hosts: Sequence[str], uses: Sequence[DeviceUse]) -> list[list[int]]:
    """Ranks for which it is the same which of them gets which device."""
    groups: dict[tuple[str, DeviceUse], list[int]] = {}
    for rank, key in enumerate(zip(hosts, uses, strict=True)):
        groups.setdefault(key, []).append(rank)
    return list(groups.values())


def _in_list_order(
    alike: list[list[int]], column: NDArray[np.intp], taken: NDArray[np.intp]
) -> None:
    for ranks in alike:
        taken[ranks] = sorted(taken[ranks], key=lambda at: column[at])


def assigned(cost: NDArray[np.float64]) -> NDArray[np.intp]:
    """The column of each row, all different, of the least sum: by shortest augmenting paths.

    Args:
        cost: rows x columns, at least as many columns as rows.
    """
    rows, columns = cost.shape
    row_of = np.full(columns + 1, -1)  # the last column is where a path begins
    row_price, column_price = np.zeros(rows), np.zeros(columns + 1)
    for row in range(rows):
        row_of[columns], at = row, columns
        least, before = np.full(columns, np.inf), np.full(columns, columns)
        seen = np.zeros(columns + 1, bool)
        while row_of[at] >= 0:
            seen[at] = True
            here = row_of[at]
            reduced = cost[here] - row_price[here] - column_price[:columns]
            nearer = ~seen[:columns] & (reduced < least)
            least[nearer], before[nearer] = reduced[nearer], at
            at = int(np.where(seen[:columns], np.inf, least).argmin())
            step = least[at]
            row_price[row_of[seen]] += step
            column_price[seen] -= step
            least[~seen[:columns]] -= step
        while at != columns:
            row_of[at] = row_of[before[at]]
            at = int(before[at])
    result = np.empty(rows, np.intp)
    used = np.flatnonzero(row_of[:columns] >= 0)
    result[row_of[used]] = used
    return result


def price_of(seats: Sequence[BorrowedSeat], recorded: Iterable[BorrowedSeat]) -> Price | None:
    """What the ways of `seats` add to a run that was recorded, by its slowest rank.

    What the ways of the recorded run itself cost is taken off its time. A rank that was not
    recorded does what the first one did. None where no recorded rank says what it did, or where
    the way of one is not known.
    """
    known = {seat.rank: seat for seat in recorded if seat.run_s and _use_of(seat)}
    prices = []
    for seat in seats:
        told = known.get(seat.rank) or next(iter(known.values()), None)
        way = seat.devices[0].predicted if seat.devices else None
        if told is None or told.run_s is None or way is None:
            return None
        use = _use_of(told)
        assert use is not None  # of those that are known
        own = sum(_own_s(told), 0.0)
        run_s = max(told.run_s - own, told.run_s / 100)
        prices.append(Price(added_s=way.seconds(use), run_s=run_s, rank=seat.rank))
    return max(prices, key=lambda price: price.added_s + price.run_s, default=None)


def uses_of(ranks: int, recorded: Iterable[BorrowedSeat]) -> list[DeviceUse]:
    """What every rank does, by a recorded run; empty where none of it is known."""
    known = {seat.rank: use for seat in recorded if (use := _use_of(seat)) is not None}
    first = next(iter(known.values()), None)
    return [] if first is None else [known.get(rank, first) for rank in range(ranks)]


def _use_of(seat: BorrowedSeat) -> DeviceUse | None:
    """Of all devices of a rank together."""
    uses = [device.use for device in seat.devices if device.use is not None]
    if not uses:
        return None
    return DeviceUse(
        bytes_to=sum(use.bytes_to for use in uses),
        bytes_from=sum(use.bytes_from for use in uses),
        calls=sum(use.calls for use in uses),
        waits=sum(use.waits for use in uses),
    )


def _own_s(seat: BorrowedSeat) -> Iterable[float]:
    """What the ways of a recorded rank cost it, by what it measured of them."""
    for device in seat.devices:
        way, use = device.measured, device.use
        if way is not None and use is not None:
            yield use.waits * way.round_trip_s
            yield use.bytes_to / way.to_bytes_per_s + use.bytes_from / way.from_bytes_per_s


def with_ways(seats: Sequence[BorrowedSeat], ways: Ways) -> tuple[BorrowedSeat, ...]:
    """The seats with what is predicted for each of their devices."""
    return tuple(
        replace(
            seat,
            devices=tuple(
                replace(device, predicted=ways.between(seat.host, device.host))
                for device in seat.devices
            ),
        )
        for seat in seats
    )
