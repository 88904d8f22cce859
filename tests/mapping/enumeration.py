"""Every placement of a small problem, all at once in NumPy: optima that no mapper had a say in.

Like the checker, it reads the topology's own words; nothing of the core is used.
"""

from functools import cached_property

import numpy as np

from tests.mapping.checker import Checker

ROUNDING = 1e-9
_AT_ONCE = 1000  # placements whose flows are followed together


class Enumeration:
    """All placements that constraints permit, and their values."""

    def __init__(self, topology, traffic, constraints):
        self.checker = Checker(topology, traffic)
        count = len(topology.devices)
        self._rows = np.array(list(self.checker.placements(constraints)), np.intp)
        source, target, nbytes, messages = (
            np.array([flow[i] for flow in self.checker.flows]) for i in range(4)
        )
        self._bytes, self._messages = nbytes.astype(np.float64), messages.astype(np.float64)
        self._ends = source.astype(np.intp), target.astype(np.intp)
        self._devices = count

    def permits(self, placement):
        return bool((self._rows == np.array(placement)).all(axis=1).any())

    def least(self, objective, metric):
        """The optimum."""
        if objective == "time":
            return self._least_time()
        values = self.congestion if objective == "congestion" else self._costs(metric)
        return float(values.min())

    def least_mean(self, default_s):
        """Of the placements not slower than the default whose busiest link is least congested."""
        best = np.flatnonzero(self.congestion <= self.congestion.min() * (1 + ROUNDING))
        best = best[self._times(self._rows[best]) <= default_s * (1 + ROUNDING)]
        return float(self._link_seconds[best].mean(axis=1).min())

    def mean(self, placement):
        at = int(np.flatnonzero((self._rows == np.array(placement)).all(axis=1))[0])
        return float(self._link_seconds[at].mean())

    def _pairs(self, rows):
        """Number of the ordered pair of devices of each flow."""
        source, target = self._ends
        return rows[:, source] * self._devices + rows[:, target]

    def _table(self, of_pair):
        table = np.zeros(self._devices**2)
        for (a, b), value in of_pair.items():
            table[a * self._devices + b] = value
        return table

    def _costs(self, metric):
        per_byte, per_message = (
            self._table(
                {pair: self.checker.pair_cost(pair, *one, metric) for pair in self.checker.pairs}
            )
            for one in ((1, 0), (0, 1))
        )
        pairs = self._pairs(self._rows)
        return np.asarray(per_byte[pairs] @ self._bytes + per_message[pairs] @ self._messages)

    @cached_property
    def _link_seconds(self):
        """Congestion of every link that some route uses: [placement, link]."""
        pairs = self._pairs(self._rows)
        links = [link for link in self.checker.topology.links if self.checker.is_used(link.id)]
        seconds = np.zeros((len(self._rows), len(links)))
        for at, link in enumerate(links):
            ahead, back = (
                (self._table(self.checker.uses((link.id, way)))[pairs] @ self._bytes)
                for way in ("forward", "backward")
            )
            capacity = link.forward_bytes_per_s.value, link.backward_bytes_per_s.value
            seconds[:, at] = np.maximum(
                *(
                    np.divide(load, rate, out=np.zeros(len(load)), where=load > 0)
                    for load, rate in zip((ahead, back), capacity, strict=True)
                )
            )
            if link.combined_bytes_per_s is not None:
                both = (ahead + back) / link.combined_bytes_per_s.value
                seconds[:, at] = np.maximum(seconds[:, at], both)
        return seconds

    @cached_property
    def congestion(self):
        """Of the busiest link, of each placement."""
        return np.asarray(self._link_seconds.max(axis=1, initial=0))

    def _least_time(self):
        """Placements by rising bound, as far as one could be faster than the fastest so far."""
        bound = np.maximum(self.congestion, self._lone_finish(self._rows).max(axis=1, initial=0))
        order = np.argsort(bound, kind="stable")
        best = np.inf
        for begin in range(0, len(order), _AT_ONCE):
            some = order[begin : begin + _AT_ONCE]
            some = some[bound[some] < best]
            if not some.size:
                break
            best = min(best, float(self._times(self._rows[some]).min()))
        return best

    @cached_property
    def _flow_numbers(self):
        """Start and cap of each flow on each pair of devices: [pair, flow]."""
        start = np.zeros((self._devices**2, len(self._bytes)))
        cap = np.full(start.shape, np.inf)
        for a, b in self.checker.pairs:
            for flow, (_, _, nbytes, messages) in enumerate(self.checker.flows):
                wait, rate = self.checker.flow_numbers((a, b), nbytes, messages)
                start[a * self._devices + b, flow] = wait
                cap[a * self._devices + b, flow] = rate
        return start, cap

    def _lone_finish(self, rows):
        start, cap = self._flow_numbers
        flows = np.arange(len(self._bytes))
        pairs = self._pairs(rows)
        return np.asarray(start[pairs, flows] + self._bytes / cap[pairs, flows])

    def _times(self, rows):
        """Progressive filling, all rows in step: [row]."""
        start, cap = self._flow_numbers
        flows = np.arange(len(self._bytes))
        pairs = self._pairs(rows)
        start, cap = start[pairs, flows], cap[pairs, flows]
        uses, capacity = self._constraints
        uses = uses[pairs]  # [row, flow, constraint]
        left = np.broadcast_to(self._bytes, start.shape).copy()
        finish = np.where(left == 0, start, np.nan)
        now = np.zeros(len(rows))
        while np.isnan(finish).any():
            waiting = np.isnan(finish)
            running = waiting & (start <= now[:, None])
            rate = _fair_rates(running, cap, uses, capacity)
            needs = np.where(running, left / np.where(running, rate, 1), np.inf)
            comes = np.where(waiting & ~running, start - now[:, None], np.inf)
            step = np.minimum(needs.min(axis=1), comes.min(axis=1))
            step[~waiting.any(axis=1)] = 0
            ends = running & (needs <= step[:, None] * (1 + 1e-12))
            now = np.where(comes.min(axis=1) <= step, np.nextafter(now + step, np.inf), now + step)
            finite = np.where(np.isfinite(rate), rate, 0)  # others are done at once
            moved = np.where(np.isinf(rate), left, finite * step[:, None])
            left = np.where(running, left - moved, left)
            finish = np.where(ends, now[:, None], finish)
        return np.asarray(finish.max(axis=1, initial=0))

    @cached_property
    def _constraints(self):
        """How often each pair of devices uses what is shared: [pair, constraint], and how much."""
        shared = self.checker.shared
        return (
            np.stack([self._table(self.checker.uses(each)) for each in shared], axis=1)
            if shared
            else np.zeros((self._devices**2, 0)),
            np.array(list(shared.values()), np.float64),
        )


def _fair_rates(running, cap, uses, capacity):
    """Max-min fair: [row, flow]; 0 for flows that do not run."""
    rate = np.zeros(running.shape)
    free = running.copy()
    while free.any():
        users = np.einsum("rf,rfc->rc", free.astype(float), uses)  # booleans are five times as slow
        taken = np.einsum("rf,rfc->rc", rate, uses)
        share = np.divide(
            capacity - taken, users, out=np.full(users.shape, np.inf), where=users > 0
        )
        level = np.minimum(
            share.min(axis=1, initial=np.inf), np.where(free, cap, np.inf).min(axis=1)
        )
        full = share <= level[:, None] * (1 + 1e-12)
        stops = free & (
            (cap <= level[:, None]) | (np.einsum("rfc,rc->rf", uses, full.astype(float)) > 0)
        )
        rate = np.where(stops, level[:, None], rate)
        free &= ~stops
    return rate
