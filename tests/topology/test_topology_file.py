"""Files hold links and exceptions; every machine is read back as it was."""

import dataclasses

import pytest

from toposeat.model.quantity import Quantity, Source
from toposeat.topology import read_topology, save_topology


@pytest.mark.parametrize(
    "name", ["k80-16", "dgx-1v", "summit-6", "mi250x-8", "aurora-12", "gb300-nvl72", "torus:4x4"]
)
def test_known_machines_are_read_back_as_they_were(name, tmp_path):
    save_topology(read_topology(name), tmp_path / "machine.json")
    assert read_topology(tmp_path / "machine.json") == read_topology(name)


def test_a_ring_of_96_is_a_small_file(tmp_path):
    """Its routes have 24 links each, and are not written one by one."""
    ring = read_topology("ring:96")
    save_topology(ring, tmp_path / "ring.json")
    assert (tmp_path / "ring.json").stat().st_size < 100_000
    again = read_topology(tmp_path / "ring.json")
    assert again.routes == ring.routes
    assert len(again.routes) == 96 * 95


def test_what_was_measured_of_one_route_is_the_only_one_in_the_file(tmp_path):
    box = read_topology("dgx-1v")
    first = dataclasses.replace(box.routes[0], cap_bytes_per_s=Quantity(47e9, Source.MEASURED))
    measured = dataclasses.replace(box, routes=(first, *box.routes[1:]))
    save_topology(measured, tmp_path / "machine.json")
    text = (tmp_path / "machine.json").read_text()
    assert text.count('"links": [') == 2  # the member of the file, and the one route
    assert read_topology(tmp_path / "machine.json") == measured
