"""StarPU bus files of four machines: what was measured is kept apart from what StarPU estimated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from toposeat.errors import InputError
from toposeat.model.quantity import Source
from toposeat.model.topology import LinkKind, PathClass, Topology, Vendor
from toposeat.topology.facts import BANDWIDTH, LATENCY, MachineFacts
from toposeat.topology.formats import parse_file
from toposeat.topology.readers.file_text import read_file

MACHINES = ("attila", "hannibal", "mirage", "sirocco")
COUNT = {"attila": 3, "hannibal": 3, "mirage": 3, "sirocco": 4}


def facts_of(shared_dir: Path, name: str) -> MachineFacts:
    facts = parse_file(read_file(shared_dir / "machines" / "starpu-bus" / name))
    assert isinstance(facts, MachineFacts)
    return facts


def platform_of(shared_dir: Path, name: str) -> Topology:
    path = shared_dir / "machines" / "starpu-bus" / f"{name}.platform.xml"
    topology = parse_file(read_file(path))
    assert isinstance(topology, Topology)
    return topology


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("what", [BANDWIDTH, LATENCY])
def test_only_cuda_rows_are_devices(shared_dir: Path, machine: str, what: str) -> None:
    facts = facts_of(shared_dir, f"{machine}.{what}")
    assert [d.label for d in facts.devices] == [f"CUDA{i}" for i in range(COUNT[machine])]
    assert {d.vendor for d in facts.devices} == {Vendor.NVIDIA}
    assert len(facts.host) == COUNT[machine]  # row and column of RAM, both directions
    assert all(h.to_device and h.from_device for h in facts.host)


def test_directions_of_sirocco(shared_dir: Path) -> None:
    """Row is source: CUDA0 to CUDA2 7.66 GB/s, back 8.50."""
    (numbers,) = facts_of(shared_dir, "sirocco.bandwidth").pairs
    assert numbers.values[0, 2] == pytest.approx(7.662719e9)
    assert numbers.values[2, 0] == pytest.approx(8.504225e9)
    assert np.isnan(np.diagonal(numbers.values)).all()
    assert numbers.source is Source.MEASURED
    host = facts_of(shared_dir, "sirocco.bandwidth").host[0]
    assert (host.to_device, host.from_device) == (
        pytest.approx(1.051768e10), pytest.approx(1.052170e10)
    )  # fmt: skip


@pytest.mark.parametrize(("machine", "estimates"), [("attila", 2), ("mirage", 2), ("sirocco", 3)])
def test_last_row_of_latencies_was_not_measured(
    shared_dir: Path, machine: str, estimates: int
) -> None:
    """In all of them the last GPU's row is the sum of two host copies to all digits."""
    facts = facts_of(shared_dir, f"{machine}.latency")
    (numbers,) = facts.pairs
    unknown = np.isnan(numbers.values)
    np.fill_diagonal(unknown, False)
    assert unknown.sum() == estimates
    assert unknown[-1].sum() == estimates
    assert any(f"{estimates} latency numbers of pairs are StarPU's est" in x for x in facts.report)


def test_hannibal_copied_nothing_directly(shared_dir: Path) -> None:
    facts = facts_of(shared_dir, "hannibal.bandwidth")
    assert facts.pairs == ()
    assert any("6 bandwidth numbers" in line for line in facts.report)
    assert {r.peer_access for r in platform_of(shared_dir, "hannibal").routes} == {False}


@pytest.mark.parametrize(
    ("machine", "cpus"),
    [
        ("sirocco", ["6-11", "6-11", "18-23", "18-23"]),
        ("mirage", ["0-5", "6-11", "6-11"]),
        ("hannibal", ["0-3", "4-7", "4-7"]),
        ("attila", [None, None, None]),  # all rows alike: no information
    ],
)
def test_near_cpus(shared_dir: Path, machine: str, cpus: list[str | None]) -> None:
    facts = facts_of(shared_dir, f"{machine}.affinity")
    assert [d.cpus for d in facts.devices] == cpus
    assert bool(facts.report) == (cpus[0] is None)


@pytest.mark.parametrize("machine", MACHINES)
def test_counts_alone_are_refused(shared_dir: Path, machine: str) -> None:
    with pytest.raises(InputError, match=f"counts devices \\({COUNT[machine]} GPUs\\)"):
        facts_of(shared_dir, f"{machine}.config")


def test_platform_with_a_pci_tree(shared_dir: Path) -> None:
    topology = platform_of(shared_dir, "attila")
    assert [d.pci_bus_id for d in topology.devices] == [
        "0000:02:00.0", "0000:03:00.0", "0000:84:00.0"
    ]  # fmt: skip
    assert {d.name for d in topology.devices} == {"Fermi C2050"}
    assert {d.memory_bytes for d in topology.devices} == {3220897792}
    classes = {(r.source, r.target): r.path_class for r in topology.routes}
    assert classes["gpu0", "gpu1"] is PathClass.PHB
    assert classes["gpu0", "gpu2"] is PathClass.SYS
    there, back = (topology.route_of_pair[pair] for pair in (("gpu0", "gpu2"), ("gpu2", "gpu0")))
    assert there.cap_bytes_per_s is not None
    assert back.cap_bytes_per_s is not None
    assert there.cap_bytes_per_s.value == pytest.approx(3.7922e9, rel=1e-4)
    assert back.cap_bytes_per_s.value == pytest.approx(3.0687e9, rel=1e-4)
    assert there.cap_bytes_per_s.source is Source.MEASURED
    (smp,) = (x for x in topology.links if x.kind is LinkKind.SMP)
    assert smp.combined_bytes_per_s is not None
    assert smp.combined_bytes_per_s.value == pytest.approx(6.5267e9, rel=1e-4)
    pcie = next(x for x in topology.links if x.ends[0] == "gpu0")
    assert pcie.forward_bytes_per_s.value == pytest.approx(6.52602e9, rel=1e-5)  # up
    assert pcie.backward_bytes_per_s.value == pytest.approx(6.00866e9, rel=1e-5)  # down


def test_platform_without_a_pci_tree(shared_dir: Path) -> None:
    topology = platform_of(shared_dir, "sirocco")
    assert {d.name for d in topology.devices} == {"Tesla K40m"}
    assert len(topology.devices) == 4  # OpenCL0 to 3 are the same
    assert any("no PCI tree" in line for line in topology.report)
    assert {r.peer_access for r in topology.routes} == {True}
    assert not any(x.kind is LinkKind.SMP for x in topology.links)


def test_other_simgrid_platforms_are_refused_by_name(shared_dir: Path) -> None:
    files = sorted((shared_dir / "machines" / "simgrid-platform").iterdir())
    assert len(files) == 6
    for path in files:
        with pytest.raises(InputError, match="SimGrid platform of a cluster") as caught:
            parse_file(read_file(path))
        assert caught.value.line


# ---- written for these tests: two GPUs, two OpenCL views of them

CONFIG = "# Current configuration\n8 # Number of CPUs\n2 # Number of CUDA devices\n"
MATRIX = (
    "# to 0\t\tto 1\t\tto 2\t\tto 3\t\t\n"
    "0.0 6000.0 5000.0 nan\n4000.0 0.0 5500.0 nan\n4500.0 2571.428571 0.0 nan\nnan nan nan nan\n"
)


def read(tmp_path: Path, matrix: str, config: str | None = CONFIG, name: str = "x.bandwidth"):
    if config is not None:
        (tmp_path / "x.config").write_text(config)
    (tmp_path / name).write_text(matrix)
    return parse_file(read_file(tmp_path / name))


def test_an_estimate_is_no_measurement(tmp_path: Path) -> None:
    (numbers,) = read(tmp_path, MATRIX).pairs
    assert numbers.values[0, 1] == 5.5e9
    assert np.isnan(numbers.values[1, 0])  # 1 / (1/4500 + 1/6000)


def test_without_config_nothing_is_guessed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"told only by x\.config"):
        read(tmp_path, MATRIX, config=None)


@pytest.mark.parametrize(
    ("matrix", "config", "name", "message"),
    [
        (MATRIX.replace("5500.0", "fast"), CONFIG, "x.bandwidth", "'fast' where a number"),
        (MATRIX.replace("5500.0", "1e99"), CONFIG, "x.bandwidth", "'1e99' where a number"),
        (MATRIX.replace(" 5500.0", ""), CONFIG, "x.bandwidth", "row 1 has 3 numbers"),
        (MATRIX.replace("nan nan nan nan\n", ""), CONFIG, "x.bandwidth", "3 rows for 4 columns"),
        (MATRIX, CONFIG, "x.txt", "must end in .bandwidth or .latency"),
        (MATRIX, CONFIG.replace("2 #", "9 #"), "x.bandwidth", "4 rows for 1 memory nodes and 9"),
        (MATRIX, CONFIG.replace("2 #", "0 #"), "x.bandwidth", "0 CUDA and HIP devices"),
        ("# GPU\tCPU0\tCPU1\n0\t0\t1\n1\t1\t1\n", CONFIG, "x.affinity", "stands twice in a row"),
        ("# GPU\tCPU0\tCPU1\n0\t0\t1\n", CONFIG, "x.affinity", "1 rows for 2 GPUs"),
    ],
)
def test_damage_is_refused(
    tmp_path: Path, matrix: str, config: str, name: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read(tmp_path, matrix, config, name)


def test_hip_devices_and_several_memory_nodes(tmp_path: Path) -> None:
    config = "# Current configuration\n8 # Number of CPUs\n2 # Number of NUMA nodes\n" \
        "0 # Number of CUDA devices\n1 # Number of HIP devices\n"  # fmt: skip
    facts = read(tmp_path, MATRIX, config)
    assert [(d.label, d.vendor) for d in facts.devices] == [("HIP0", Vendor.AMD)]
    assert {h.numa_node: (h.to_device, h.from_device) for h in facts.host} == {
        0: (5e9, 4.5e9), 1: (5.5e9, 2571.428571e6)
    }  # fmt: skip
