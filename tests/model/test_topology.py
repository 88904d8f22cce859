import dataclasses

import pytest

from tests.model.samples import pair_topology
from toposeat.model.topology import Route, canonical_pci


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0000:3B:00.0", "0000:3b:00.0"),
        ("00000000:3B:00.0", "0000:3b:00.0"),
        ("3b:00.0", "0000:3b:00.0"),
        (" 0008:06:00.0\n", "0008:06:00.0"),
        ("00010000:01:00.0", "10000:01:00.0"),
    ],
)
def test_one_spelling_of_a_pci_bus_id(text, expected):
    assert canonical_pci(text) == expected


@pytest.mark.parametrize("text", ["", "gpu0", "0000:3b:00", "0000:3b:00.8", "0000:3g:00.0"])
def test_other_text_is_no_pci_bus_id(text):
    with pytest.raises(ValueError, match="not a PCI bus id"):
        canonical_pci(text)


def test_routes_must_be_walkable():
    good = pair_topology()
    with pytest.raises(ValueError, match="stops at 'gpu0'"):
        dataclasses.replace(good, routes=(Route(source="gpu0", target="gpu1", links=()),)).check()
    with pytest.raises(ValueError, match="stops at 'gpu0'"):
        dataclasses.replace(
            good, routes=(Route(source="gpu0", target="gpu1", links=("l0", "l0")),)
        ).check()


def test_ids_are_unique_and_known():
    good = pair_topology()
    with pytest.raises(ValueError, match="'gpu0' appears twice"):
        dataclasses.replace(good, devices=(good.devices[0], *good.devices)).check()
    with pytest.raises(ValueError, match="unknown vertex 'gpu1'"):
        dataclasses.replace(good, devices=good.devices[:1]).check()
