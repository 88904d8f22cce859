"""amd-smi topology, text and JSON alike, and rocm-smi --showtopo, as documented and recorded."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.topology.readers import amd_samples as samples
from tests.topology.readers.recorded import bonds, facts_of, facts_of_text, paths, peers
from toposeat.errors import InputError
from toposeat.model.topology import LinkKind, Vendor
from toposeat.topology import constants as k
from toposeat.topology.formats import parse_file
from toposeat.topology.readers import amd_smi
from toposeat.topology.readers.file_text import decoded, read_file


def test_mi250x_in_text():
    facts = facts_of_text(samples.amd_smi_mi250x())
    assert tuple(d.pci_bus_id for d in facts.devices) == samples.MI250X_BUS
    assert {at: x.count for at, x in bonds(facts).items()} == samples.MI250X
    assert {(x.count, x.bytes_per_s) for x in bonds(facts).values()} == {
        (4, 200e9), (2, 100e9), (1, 50e9)
    }  # fmt: skip
    assert all(peers(facts).values())
    assert len(peers(facts)) == 56
    assert any("hops is not used" in line for line in facts.report)


def test_text_and_json_say_the_same():
    def kind(i, j):
        return "XGMI" if i // 4 == j // 4 else "PCIE"

    def weight(i, j):
        return 0 if i == j else 15 if i // 4 == j // 4 else 72

    bus = samples.MI300X_BUS
    text = (
        samples.amd_smi_table("ACCESS TABLE", bus, lambda i, j: "ENABLED")
        + samples.amd_smi_table("WEIGHT TABLE", bus, weight)
        + samples.amd_smi_table(
            "LINK TYPE TABLE", bus, lambda i, j: kind(i, j) if i - j else "SELF"
        )
        + samples.amd_smi_table(
            "NUMA BW TABLE", bus, lambda i, j: "50000-50000" if i - j else "N/A"
        )
    )
    as_text, as_json = facts_of_text(text), facts_of_text(samples.amd_smi_json(bus, weight, kind))
    assert as_text.devices == as_json.devices
    assert bonds(as_text) == bonds(as_json)
    assert len(bonds(as_text)) == 12
    assert peers(as_text) == peers(as_json)
    assert paths(as_text) == paths(as_json)
    assert len(paths(as_text)) == 16


def test_partitions_have_a_parent():
    bus = [f"0000:05:00.{i}" for i in range(4)] + [f"0000:26:00.{i}" for i in range(4)]
    facts = facts_of_text(
        samples.amd_smi_json(
            bus,
            lambda i, j: 0 if i == j else 13 if i // 4 == j // 4 else 41,
            lambda i, j: "XGMI",
            bandwidth="0-0",
        )
    )
    assert [d.parent for d in facts.devices] == ["0000:05:00"] * 4 + ["0000:26:00"] * 4
    inside = {(i, j): x for (i, j), x in bonds(facts).items() if i // 4 == j // 4}
    assert len(inside) == 12
    assert {x.bytes_per_s for x in inside.values()} == {k.XGMI_IN_PACKAGE}
    between = {at: x.bytes_per_s for at, x in bonds(facts).items() if at not in inside}
    assert between == {(0, 4): 64e9}
    assert {d.forwards for d in facts.devices} == {True}
    assert any("8 devices are partitions of 2 GPUs" in line for line in facts.report)


def test_idle_range_is_not_known():
    bus = samples.MI300X_BUS[:2]
    facts = facts_of_text(
        samples.amd_smi_table("LINK TYPE TABLE", bus, lambda i, j: "XGMI" if i - j else "SELF")
        + samples.amd_smi_table("NUMA BW TABLE", bus, lambda i, j: "0-0" if i - j else "N/A")
    )
    (link,) = bonds(facts).values()
    assert link.bytes_per_s is None
    assert any("no table of weights" in line for line in facts.report)


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(6)), st.integers(0, 3))
def test_the_order_of_rows_and_of_tables_does_not_matter(order, first):
    """Tables may print devices in another order than the one before."""
    weight = {(i, j): 15 if (i + j) % 3 else 30 for i in range(6) for j in range(6)}

    def table(title, cell, rows):
        head = "       " + " ".join(f"GPU{i}" for i in rows)
        body = [f"GPU{i} " + " ".join(str(cell(i, j)) for j in rows) for i in rows]
        return "\n".join([f"=== {title} ===", head, *body, ""])

    parts = [
        table("Weight between two GPUs", lambda i, j: 0 if i == j else weight[i, j], order),
        table("Link Type between two GPUs", lambda i, j: "XGMI" if i != j else 0, list(range(6))),
    ]
    facts = parse_file(decoded("\n".join(parts[:: -1 if first % 2 else 1]).encode(), Path("x")))
    links = {frozenset((p.source, p.target)) for p in facts.pairs if p.bond is not None}
    assert links == {
        frozenset((f"GPU{i}", f"GPU{j}"))
        for i in range(6) for j in range(i) if weight[i, j] == 15
    }  # fmt: skip


def pairs_of_links(facts):
    assert all(link.kind is LinkKind.XGMI for link in bonds(facts).values())
    return set(bonds(facts))


@pytest.mark.parametrize("label", ["GPU{}", "GPU[{}]", "GPU {} "])
def test_mi250x_has_links_where_weights_say_one_hop(label):
    facts = facts_of_text(samples.rocm_smi_mi250x(label=label))
    assert pairs_of_links(facts) == set(samples.MI250X)  # 15 of 28 pairs weigh 30
    assert {link.count for link in bonds(facts).values()} == {1}  # the tool does not tell how many
    assert [d.numa_node for d in facts.devices] == [3, 3, 1, 1, 0, 0, 2, 2]
    assert {d.vendor for d in facts.devices} == {Vendor.AMD}
    report = " ".join(facts.report)
    assert "hops is not used" in report
    assert "low-power" in report
    assert "16 xGMI pairs weigh more than 15" in report
    assert "each pair counts as one link" in report


def test_recorded_pair_without_bridge(shared_dir):
    file = read_file(shared_dir / "machines" / "rocm-smi-topo" / "2gpu-mi100-pcie-minimal.txt")
    facts = amd_smi.parse_rocm(file)
    assert [d.id for d in facts.devices] == ["GPU0", "GPU1"]
    assert bonds(facts) == {}
    assert [d.numa_node for d in facts.devices] == [None, None]
    assert any("memory node" in line for line in facts.report)


def test_every_recorded_file_is_read(shared_dir):
    files = sorted((shared_dir / "machines" / "rocm-smi-topo").iterdir())
    assert files
    for path in files:
        assert facts_of(path).devices


def test_pcie_weights_place_pairs():
    weight = {(0, 1): 40, (2, 3): 40}
    text = (
        samples.rocm_table(
            "Weight between two GPUs",
            4,
            lambda i, j: 0 if i == j else weight.get((min(i, j), max(i, j)), 72),
        )
        + samples.rocm_table("Link Type between two GPUs", 4, lambda i, j: 0 if i == j else "PCIE")
        + samples.rocm_numa([0, 0, 1, 1])
    )
    facts = facts_of_text(text)
    assert bonds(facts) == {}
    far = {at for at, path in paths(facts).items() if path == "SYS"}
    assert far == {(0, 2), (0, 3), (1, 2), (1, 3)}
    assert any("PCIe switches are not shown" in line for line in facts.report)


def test_bandwidth_range_counts_links_and_access_keeps_directions():
    text = (
        samples.rocm_table("Link Type between two GPUs", 2, lambda i, j: "XGMI" if i - j else 0)
        + samples.rocm_table("Bandwidth", 2, lambda i, j: "50000-200000" if i - j else "N/A")
        + "Format: min-max; Units: mps\n"
        + samples.rocm_table("Link accessibility between two GPUs", 2, lambda i, j: i >= j)
    )
    facts = facts_of_text(text)
    rates = [(p.bond.count, p.bond.bytes_per_s) for p in facts.pairs if p.bond is not None]
    assert rates == [(4, 200e9), (4, 200e9)]
    assert dict(peers(facts)) == {(0, 1): False, (1, 0): True}


def test_wrapped_at_eighty_columns():
    wrapped = "\n".join(
        line[at : at + 80]
        for line in samples.rocm_smi_mi250x().split("\n")
        for at in range(0, max(1, len(line)), 80)
    )
    assert pairs_of_links(facts_of_text(wrapped)) == set(samples.MI250X)


def test_numa_node_and_affinity_that_differ_are_reported():
    facts = facts_of_text(samples.rocm_smi_mi250x().replace("Numa Node: 1", "Numa Node: 4"))
    assert any("Numa Node and Numa Affinity differ" in line for line in facts.report)
    assert facts.devices[2].numa_node == 1


def test_a_link_type_of_a_newer_tool_leaves_its_pair_open():
    def kind(i, j):
        return 0 if i == j else "UALINK" if i + j == 1 else "PCIE"

    def text(kind):
        return samples.rocm_table(
            "Weight between two GPUs", 3, lambda i, j: 40 * (i != j)
        ) + samples.rocm_table("Link Type between two GPUs", 3, kind)

    facts = facts_of_text(text(kind))
    assert bonds(facts) == {}
    assert any("1 pairs have a word that is not known (UALINK)" in line for line in facts.report)
    with pytest.raises(InputError, match=r"'UALINK' between .*none that is known"):
        facts_of_text(text(lambda i, j: "UALINK" if i != j else 0))
