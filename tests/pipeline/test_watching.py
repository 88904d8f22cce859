"""Looks at a running job: pairs as its records have them, links by the routes of the machine."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.profile.records.records import write_record
from toposeat.pipeline import JobWatch
from toposeat.report import glance_line
from toposeat.topology import read_topology

_RUNNING = 0
_SIZE = 1000


def _write(folder: Path, messages: int, pci: dict[int, str] | None = None) -> dict[str, int]:
    """Four ranks in a ring, each with twice the messages of the one before; bytes by pair."""
    sent = {}
    for rank in range(4):
        count, peer = messages << rank, (rank + 1) % 4
        devices = [(rank, pci[rank].encode(), count * _SIZE, count)] if pci else []
        write_record(
            folder,
            rank,
            4,
            pairs=[(0, int(bool(pci)), peer, _SIZE, count)],
            devices=devices,
            state=_RUNNING,
        )
        sent[f"{rank} > {peer}"] = count * _SIZE
    return sent


def test_nothing_is_seen_before_the_first_record(tmp_path: Path) -> None:
    assert JobWatch(None).look(tmp_path) is None
    (tmp_path / "rank-0-1.tpsrec").touch()
    assert JobWatch(None).look(tmp_path) is None


def test_bytes_and_their_rate_without_a_machine(tmp_path: Path) -> None:
    watch = JobWatch(None, "not known: no GPU")
    sent = _write(tmp_path, 10)
    first = watch.look(tmp_path)
    assert first is not None
    assert first.most is not None
    source, target, count = first.most
    assert (f"{source} > {target}", count) == max(sent.items(), key=lambda pair: pair[1])
    assert (first.ranks, first.seen, first.bytes) == (4, 4, sum(sent.values()))
    assert first.busiest is None
    assert glance_line(first, None).endswith("; links not known: no GPU")
    again = watch.look(tmp_path)
    assert again is not None
    assert again.bytes_per_s == 0
    _write(tmp_path, 30)
    later = watch.look(tmp_path)
    assert later is not None
    assert later.bytes == 3 * first.bytes
    assert later.bytes_per_s > 0


@pytest.mark.parametrize("order", [None, (3, 1, 0, 2)])
def test_the_busiest_link_is_by_the_routes(tmp_path: Path, order: tuple[int, ...] | None) -> None:
    machine = read_topology("rtx-4-crossed-bridges")
    ids = [device.id for device in machine.devices]
    pci = [device.pci_bus_id or "" for device in machine.devices]
    used = None if order is None else {rank: pci[device] for rank, device in enumerate(order)}
    sent = _write(tmp_path, 10, used)
    place = order or range(4)
    load: Counter[tuple[str, bool]] = Counter()
    link_of = {link.id: link for link in machine.links}
    for pair, count in sent.items():
        source, target = (ids[place[int(rank)]] for rank in pair.split(" > "))
        at = source
        for link in machine.route_of_pair[source, target].links:
            forward = link_of[link].ends[0] == at
            at = link_of[link].ends[forward]
            load[link, forward] += count
    share = {
        link: max(
            load[link, True] / each.forward_bytes_per_s.value,
            load[link, False] / each.backward_bytes_per_s.value,
            (load[link, True] + load[link, False]) / each.combined_bytes_per_s.value
            if each.combined_bytes_per_s
            else 0,
        )
        for link, each in link_of.items()
    }
    glance = JobWatch(machine).look(tmp_path)
    assert glance is not None
    assert glance.busiest is not None
    assert share[glance.busiest[0]] == pytest.approx(max(share.values()))
    assert 0 < glance.busiest[1] < 1
    assert ("default order" in glance.seating) == (order is None)
    assert "of its rate (modelled; rtx-4-crossed-bridges; " in glance_line(glance, machine)


def test_more_ranks_than_devices_have_no_links(tmp_path: Path) -> None:
    _write(tmp_path, 10)
    glance = JobWatch(read_topology("max1100-2")).look(tmp_path)
    assert glance is not None
    assert glance.most is not None
    assert glance.busiest is None
    assert glance.seating == "not known: 4 ranks, max1100-2 has 2 devices"
