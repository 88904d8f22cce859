"""What people paste: known tables inside any text, cut anywhere, beside what is not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from toposeat.errors import InputError
from toposeat.model.processor import CPU_NAME
from toposeat.model.topology import PathClass
from toposeat.topology import read_topologies, read_topology
from toposeat.topology.sources import parse_topology_text

MATRIX = """\
        GPU0    GPU1    CPU Affinity    NUMA Affinity
GPU0     X      NV4     0-15    0
GPU1    NV4      X      16-31   1
"""


@pytest.fixture(scope="module")
def cases(shared_dir: Path) -> Path:
    """Inputs of public threads."""
    return shared_dir / "cases/topology"


def test_what_vllm_collects_is_read(cases: Path) -> None:
    machine = read_topology(str(cases / "17-vllm-collect-env/collect_env.txt"))
    name = "NVIDIA RTX PRO 6000 Blackwell Workstation Edition"
    assert [device.name for device in machine.devices] == [name] * 2
    assert machine.route_of_pair["gpu0", "gpu1"].path_class is PathClass.NODE
    assert machine.metadata[CPU_NAME] == "AMD Ryzen Threadripper PRO"


def test_results_of_nvbandwidth_whose_beginning_is_cut(cases: Path) -> None:
    machine = read_topology(str(cases / "19-nvbandwidth-without-device-list/nvbandwidth.txt"))
    assert [device.name for device in machine.devices] == [""] * 6
    cap = machine.route_of_pair["gpu3", "gpu0"].cap_bytes_per_s  # a read copies from the column
    assert cap is not None
    assert cap.value == 21.95e9


def test_sums_of_both_directions_are_no_rate_of_one(cases: Path) -> None:
    case = cases / "05-bidirectional-only-one-slow"
    machine = read_topologies([str(case / "topo.txt"), str(case / "p2p.txt")])
    assert any("table of one direction" in line for line in machine.report)
    with pytest.raises(InputError, match="without its table of one direction"):
        read_topology(str(case / "p2p.txt"))


@pytest.mark.parametrize("prompt", ["$ ", "# ", "root@box:~# ", "(base) me@box:~/x$ ", "> "])
def test_prompts_and_fences_around_a_query(prompt: str) -> None:
    text = (
        "My GPUs, as asked for, name, index and all:\n\n```\n"
        f"{prompt}nvidia-smi --query-gpu=index,name,uuid,pci.bus_id --format=csv\n"
        "index, name, uuid, pci.bus_id\n"
        "0, NVIDIA A40, GPU-00000000-0000-0000-0000-000000000000, 00000000:16:00.0\n"
        "1, NVIDIA A40, GPU-00000001-0000-0000-0000-000000000000, 00000000:3A:00.0\n"
        f"{prompt}\n```\nThanks, all!\n"
    )
    for whole in (text + MATRIX, f"{prompt}nvidia-smi topo -m\n{MATRIX}{text}"):
        machine = parse_topology_text(whole, Path("issue.md"))
        assert [d.pci_bus_id for d in machine.devices] == ["0000:16:00.0", "0000:3a:00.0"]
    cut = text.replace(", GPU-00000001-0000-0000-0000-000000000000, 00000000:3A:00.0", "")
    with pytest.raises(InputError, match="row has 2 of 4 cells"):
        parse_topology_text(cut + MATRIX, Path("issue.md"))
