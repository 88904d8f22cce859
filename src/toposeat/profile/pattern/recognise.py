"""What a traffic is, as one sentence for the report: its messages, then its collectives.

A shape is claimed of *exact* messages alone: point-to-point, one-sided, and collectives whose
messages the program gives. What an MPI makes of other collectives is modelled, and the edges of an
algorithm look like a grid; so these are said by operation and by who takes part.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from toposeat.model.pair_table import EXACT
from toposeat.model.plural import plural
from toposeat.model.traffic import GRID, Exchange, PairTable, Traffic, TrafficKind
from toposeat.profile.pattern.halo import EVEN, MIN_SHARE, Axis, PairSet, Shape, halos, neighbours

MIN_RANKS = 3
_MAX_PAIRS = 1 << 23  # with more, it takes longer than a sentence is worth
_MAX_ORDERS = 8  # communicators whose order is tried
_MAX_COLLECTIVES = 3  # that are named
_TO_EVERYONE = frozenset({"allgather", "allgatherv", "alltoall", "reduce_scatter_block"})


def with_pattern(traffic: Traffic) -> Traffic:
    """The same traffic with what was recognised in its metadata, for the reports and notes."""
    return replace(traffic, metadata={**traffic.metadata, **recognise(traffic)})


def recognise(traffic: Traffic) -> dict[str, str]:
    """The pattern of the traffic that is mapped, and its grid; none of few ranks or many pairs."""
    pairs = _pairs(traffic, {*TrafficKind} - {TrafficKind.COLLECTIVE})
    loads = _collectives(traffic).most_common()
    total = pairs.total + sum(size for _, size in loads)
    if traffic.ranks < MIN_RANKS or len(pairs.keys) > _MAX_PAIRS or not total:
        return {}
    shape = None
    if rest := sum(size for _, size in loads[_MAX_COLLECTIVES:]):
        loads[_MAX_COLLECTIVES:] = [("other collectives", rest)]
    parts = [f"{name}: {percent(size / total)}" for name, size in loads]
    if pairs.total:
        shape = pairs.claim(_shapes(pairs, traffic)) or _in_another_order(pairs, traffic)
        heavier = sum(size > pairs.total for _, size in loads) if shape is None else 0
        parts.insert(heavier, _words(pairs, shape, total))
    if "of the bytes" not in parts[0]:
        parts[0] += " of the bytes"
    found = {"pattern": "; ".join(parts)}
    return {**found, GRID: shape.grid} if shape is not None and shape.grid else found


def percent(share: float) -> str:
    """Never rounded up to all of it, nor down to nothing: `97 %`, `99.9 %`, `0.3 %`, `<0.1 %`."""
    if 0 < share < 0.0005:
        return "<0.1 %"
    near = 0 < share < 0.0095 or 0.995 <= share < 1
    return f"{min(100 * share, 99.9):.1f} %" if near else f"{100 * share:.0f} %"


def _pairs(traffic: Traffic, kinds: set[TrafficKind]) -> PairSet:
    table = PairTable.total(traffic.table(kind=kind, space=traffic.mapped_space) for kind in kinds)
    return PairSet.of(table, traffic.ranks)


def _shapes(pairs: PairSet, traffic: Traffic) -> Iterator[Shape]:
    """What the messages may be in rank order."""
    n, (source, target) = pairs.ranks, pairs.ends()
    step = int(np.bincount((target - source) % n, weights=pairs.bytes).argmax())
    if np.gcd(step, n) == 1:
        to = {1: "the next", n - 1: "the one before"}.get(step, f"rank + {step}")
        rank = np.arange(n, dtype=np.int64)
        yield Shape(f"ring, each rank to {to}", rank * n + (rank + step) % n)
    # A full matrix is none where it is mostly something else, say a grid with other bytes: half of
    # the pairs carry more than of sizes at random (exponential ones: (1 + ln 2) / 2).
    heavy = np.sort(pairs.bytes)[::-1][: len(pairs.keys) // 2]
    if len(pairs.keys) == n * (n - 1) and heavy.sum() <= 0.85 * pairs.total:
        uneven = "" if pairs.bytes.max() <= (1 + EVEN) * pairs.bytes.min() else ", uneven"
        yield Shape(f"all-to-all among all ranks{uneven}", pairs.keys)
    yield from halos(pairs)
    weight = np.bincount(np.abs(target - source), weights=pairs.bytes, minlength=n)
    divisors = (np.flatnonzero(n % np.arange(1, n) == 0) + 1).tolist()
    # Messages between ranks far apart are those of a pipeline beside groups that have collectives.
    kinds = {kind for (kind, _), table in traffic.tables.items() if table.bytes.any()}
    staged = kinds <= {TrafficKind.POINT_TO_POINT, TrafficKind.COLLECTIVE}
    staged &= any(where.startswith("in ") for where in _families(traffic).values())
    for stride in divisors if len(pairs.keys) >= n else ():
        if stride > 1 and staged:
            words = f"point-to-point between {n // stride} pipeline stages of {stride} ranks"
            yield Shape(words, neighbours(n, [Axis(stride, n // stride)]))
        for span in (d for d in [*divisors, n] if stride < d < n * stride and d % stride == 0):
            if weight[stride:span:stride].sum() >= MIN_SHARE * pairs.total:
                group = source // span * stride + source % stride
                keys = pairs.keys[group == target // span * stride + target % stride]
                if len(keys) == n * (span // stride - 1):
                    how = "exchange in pairs" if span == 2 * stride else "all-to-all"
                    yield Shape(f"{how} {_who(n // span * stride, span // stride, stride)}", keys)


def _in_another_order(pairs: PairSet, traffic: Traffic) -> Shape | None:
    """A halo in the order of a communicator, as MPI_Cart_create with reordering makes it."""
    orders = {c.ranks: c.name or c.id for c in traffic.communicators if len(c.ranks) >= MIN_RANKS}
    orders.pop(tuple(range(traffic.ranks)), None)
    for members in sorted(orders, key=len, reverse=True)[:_MAX_ORDERS]:
        place, world = np.full(pairs.ranks, -1, np.int64), np.array(members, np.int64)
        place[world] = np.arange(len(members))
        rows = np.stack([*place[np.stack(pairs.ends())], pairs.bytes, pairs.bytes])
        table = PairTable.from_pairs(*rows[:, (rows[:2] >= 0).all(axis=0)])
        inside = PairSet.of(table, len(members))._replace(total=pairs.total)
        found = inside.claim(halos(inside))
        if found is not None:
            some = "" if len(members) == pairs.ranks else f"the {len(members)} ranks of "
            more = f"{found.more}; ranks in the order of {some}communicator {orders[members]}"
            source, target = world[np.stack(np.divmod(found.keys, len(members)))]
            return Shape(found.words, source * pairs.ranks + target, more)
    return None


def _words(pairs: PairSet, shape: Shape | None, total: int) -> str:
    if shape is not None:
        size = int(pairs.bytes_of(shape.keys).sum())
        off = f", {percent((pairs.total - size) / total)} elsewhere" if size < pairs.total else ""
        of = f"of the bytes on {len(shape.keys)} directed pairs"
        return f"{shape.words}: {percent(size / total)} {of}{off}{shape.more}"
    heavy = np.sort(pairs.bytes)[::-1].cumsum()
    most = int(np.searchsorted(heavy, pairs.total / 2)) + 1
    some, share = f"{most} of the ", percent(int(heavy[most - 1]) / total)
    if pairs.total < total or most == len(heavy):
        some, share = "", percent(pairs.total / total)
    partners = np.bincount(pairs.ends()[0], minlength=pairs.ranks)
    each = " to ".join(map(str, sorted({int(partners.min()), int(partners.max())})))
    on = f"{some}{plural(len(heavy), 'directed pair')} in use"
    return f"irregular: {share} of the bytes on {on}; ranks send to {each} others"


def _collectives(traffic: Traffic) -> Counter[str]:
    """Bytes of collectives by operation and who takes part, which add up to those in the tables.

    What a group moves that a library orders itself is told; the others have the rest. Operations
    share these by the bytes that their ranks give, times how often they are sent.
    """
    where, size_of = _families(traffic), {c.id: len(c.ranks) for c in traffic.communicators}
    pools: Counter[int] = Counter()
    pools[-1] = _pairs(traffic, {TrafficKind.COLLECTIVE}).total
    for load in traffic.groups if pools[-1] else ():
        n = size_of[load.communicator]
        size = load.bytes * n * (n - 1 if load.exchange is Exchange.PAIRWISE else 1)
        pools.update({load.communicator: size, -1: -size})
    given: dict[int, Counter[str]] = defaultdict(Counter)
    for event in [e for e in traffic.collectives if e.algorithm] or traffic.collectives:
        own, operation = event.communicator, event.operation
        seen = own in where and traffic.mapped_space in (None, event.space)
        if seen and operation not in EXACT:
            sent = size_of[own] - 1 if operation in _TO_EVERYONE else 1 + (operation == "allreduce")
            pool = given[own if own in pools else -1]
            pool[f"{operation} {where[own]}"] += event.bytes * event.calls * sent
    said = Counter[str]()
    for number, size in pools.items():
        shares = +given[number] or {f"collectives {where.get(number, '')}".rstrip(): 1}
        for name, share in shares.items():
            said[name] += max(size, 0) * share // sum(shares.values())
    return +said


def _families(traffic: Traffic) -> dict[int, str]:
    """Each communicator that has collectives, with its like: `in 4 groups of 4 ranks, 4 apart`."""
    used = {each.communicator for each in traffic.groups}
    used |= {each.communicator for each in traffic.collectives}
    members = {c.id: tuple(sorted(set(c.ranks))) for c in traffic.communicators if c.id in used}
    steps = {ranks: set(np.diff(ranks).tolist()) for ranks in members.values()}
    alike = {ranks: (len(ranks), sum(own) if len(own) == 1 else 0) for ranks, own in steps.items()}
    number = Counter(alike.values())
    words = {each: _who(number[each], *each) for each in number}
    words[traffic.ranks, 1] = "among all ranks"
    return {id: words[alike[ranks]] for id, ranks in members.items()}


def _who(number: int, size: int, step: int) -> str:
    order = " consecutive ranks" if step == 1 else f" ranks, {step} apart" if step else " ranks"
    return f"in {number} groups of {size}{order}" if number > 1 else f"among {size}{order}"
