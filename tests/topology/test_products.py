"""Product knowledge against what others state: the catalogue's machines, recorded names."""

import pytest

from toposeat.model.path_class import DEVICE_LINKS
from toposeat.model.topology import LinkKind, Vendor
from toposeat.topology import built_in_machines, catalogue_names, products, read_topology


def _lanes(machine):
    """Device links of each device."""
    found = {device.id: 0 for device in machine.devices}
    for link in machine.links:
        for end in link.ends if link.kind in DEVICE_LINKS else ():
            if end in found and link.name not in ("Multi-Die Fabric", "in package"):
                found[end] += link.count
    return found


@pytest.mark.parametrize("name", catalogue_names())
def test_the_catalogue_and_the_table_agree(name):
    """A module has links, a GPU without any in the table none; never more than it can have."""
    machine = read_topology(name)
    lanes = _lanes(machine)
    for device in machine.devices:
        known = products.products_named(device.name)
        assert known, device.name
        assert {each.vendor for each in known} <= {device.vendor}
        if all(each.always for each in known):
            assert lanes[device.id] > 0
        assert lanes[device.id] <= max(each.lanes for each in known)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 SXM5"),
        ("GH100 [H100 SXM5 80GB]", "NVIDIA H100 SXM5"),
        ("GH100 [H100 PCIe]", "NVIDIA H100 PCIe or NVL"),
        ("NVIDIA H100 NVL", "NVIDIA H100 PCIe or NVL"),
        ("NVIDIA GH200 480GB", "NVIDIA GH200"),
        ("GA100 [A100 SXM4 40GB]", "NVIDIA A100-SXM4"),
        ("NVIDIA A100 80GB PCIe", "NVIDIA A100 PCIe"),
        ("GV100GL [Tesla V100 SXM2 16GB]", "NVIDIA V100-SXM2"),
        ("Tesla V100S-PCIE-32GB", "NVIDIA V100 PCIe"),
        ("GV100 [TITAN V]", "NVIDIA TITAN V"),
        ("GP100GL [Tesla P100 PCIe 16GB]", "NVIDIA P100 PCIe"),
        ("NVIDIA RTX 6000 Ada Generation", "NVIDIA L4, L40 or Ada"),
        ("Aqua Vanjaram [Instinct MI300A]", "AMD Instinct MI300A"),
        ("Aldebaran/MI200 [Instinct MI250X]", "AMD Instinct MI250X"),
        ("Aldebaran/MI200 [Instinct MI250X/MI250]", "AMD Instinct MI250X or MI250"),
        ("Ponte Vecchio XT (1 Tile) [Data Center GPU Max 1100]", "Intel Max 1100"),
        ("gfx1100", "AMD Radeon"),
    ],
)
def test_one_product_fits(name, expected):
    assert [each.name for each in products.products_named(name)] == [expected]


def test_what_several_products_fit_is_not_settled():
    hopper = products.products_named("sm_90")
    assert {each.always for each in hopper} == {True, False}
    assert {each.lane for each in hopper} == {products.lane_named("sm_90")}
    assert len(products.products_named("A100")) == 2
    assert products.lane_named("sm_70") is not None  # whatever has NVLink has that of Volta
    assert products.products_named("gfx1299") == products.products_named("gfx1030")
    assert products.products_named("gfx9999") == ()
    assert products.products_named("") == ()


def test_every_pci_id_names_its_product():
    for product in products.products():
        vendor = {Vendor.NVIDIA: 0x10DE, Vendor.AMD: 0x1002, Vendor.INTEL: 0x8086}[product.vendor]
        for device in product.ids:
            name = products.name_of_pci(vendor, int(device, 16))
            assert product in products.products_named(name), name
    assert products.name_of_pci(0x1A03, 0x2000) == ""


def test_boards_are_those_of_the_catalogue():
    known = built_in_machines()
    for product in products.products():
        assert (product.lane is None) == (product.ways == ())
        for word, _, what in (way.partition(" ") for way in product.ways):
            assert word in ("switch", "each", "some", "bridge", "like", "as")
            assert word not in ("like", "as") or what in known
            assert product.lane is not None
            assert product.lane.kind in DEVICE_LINKS | {LinkKind.XELINK}
