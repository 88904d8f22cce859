"""xpu-smi topology -m: tiles, Xe Link lanes, MDF, PCIe words."""

import pytest

from tests.topology.readers.amd_samples import max1550, xpu_smi
from tests.topology.readers.recorded import bonds, facts_of, facts_of_text, paths
from toposeat.errors import InputError
from toposeat.model.topology import LinkKind, Vendor
from toposeat.topology import constants as k


def test_recorded_bridge_of_24_lanes(shared_dir):
    facts = facts_of(shared_dir / "machines/xpu-smi-topo/2gpu-max1100-xl24.txt")
    assert [d.id for d in facts.devices] == ["GPU 0/0", "GPU 1/0"]
    assert {d.vendor for d in facts.devices} == {Vendor.INTEL}
    assert [d.parent for d in facts.devices] == [None, None]  # one tile each
    assert [d.cpus for d in facts.devices] == ["0-143", "0-143"]
    (link,) = bonds(facts).values()
    assert (link.kind, link.count) == (LinkKind.XELINK, 24)
    assert link.bytes_per_s == pytest.approx(318e9)  # stated by the source of the file


def test_stacks_of_max_1550():
    facts = facts_of_text(xpu_smi(2, 2, max1550, ["0-51", "52-103"]))
    assert [d.parent for d in facts.devices] == ["GPU 0", "GPU 0", "GPU 1", "GPU 1"]
    links = {at: (x.count, x.bytes_per_s) for at, x in bonds(facts).items()}
    assert links == {
        (0, 1): (1, k.MDF.data_sheet),
        (2, 3): (1, k.MDF.data_sheet),
        (0, 2): (16, pytest.approx(212e9)),
        (1, 3): (16, pytest.approx(212e9)),
    }
    # The stacks of one card share its PCIe link.
    assert paths(facts) == {(0, 1): "PIX", (2, 3): "PIX"}
    assert any("2 pairs of tiles are joined by Xe Link and MDF together" in x for x in facts.report)


def test_pcie_words():
    words = {
        (0, 1): "PIX",
        (0, 2): "NODE",
        (0, 3): "SYS",
        (1, 2): "PXB",
        (1, 3): "PHB",
        (2, 3): "SYS",
    }
    facts = facts_of_text(
        xpu_smi(4, 1, lambda i, j: words[min(i, j), max(i, j)], ["0-3", "0-3", "4-7", "N/A"])
    )
    assert bonds(facts) == {}
    assert paths(facts) == words
    assert facts.devices[3].cpus is None


def test_a_word_of_a_newer_tool_leaves_its_tiles_open():
    def cell(i, j):
        return "CXL4" if {i, j} == {0, 2} else max1550(i, j)

    facts = facts_of_text(xpu_smi(2, 2, cell, ["0-51", "52-103"]))
    assert set(bonds(facts)) == {(0, 1), (1, 3), (2, 3)}
    assert (
        "1 pairs have a word that is not known (CXL4), first GPU 0/0 - GPU 1/0" in (facts.report[0])
    )
    with pytest.raises(InputError, match="and none that is known"):
        facts_of_text(xpu_smi(2, 1, lambda i, j: "CXL4", ["0-51", "52-103"]))
