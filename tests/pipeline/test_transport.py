"""The transport of a group: where it outweighs any order it comes first, with what settles it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from toposeat import pipeline
from toposeat.cli.main import main
from toposeat.evaluation.group_rate import group_rate
from toposeat.model.processor import CPU_NAME
from toposeat.model.topology import Topology
from toposeat.model.transport import Staging
from toposeat.profile import pattern_traffic
from toposeat.topology import read_topologies, read_topology, with_peer_access

TOPO = """\
\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNODE\tNODE\tNODE\t0-31\t0
GPU1\tNODE\t X \tNODE\tNODE\t0-31\t0
GPU2\tNODE\tNODE\t X \tNODE\t0-31\t0
GPU3\tNODE\tNODE\tNODE\t X \t0-31\t0
"""


def listed(name: str) -> str:
    return "".join(
        f"GPU {i}: {name} (UUID: GPU-{i:08x}-0000-0000-0000-{i:012x})\n" for i in range(4)
    )


@pytest.fixture
def sources(tmp_path: Path) -> list[Path]:
    found = [tmp_path / name for name in ("topo.txt", "list.txt", "lscpu.txt")]
    texts = (TOPO, listed("NVIDIA L40S"), "Model name: AMD EPYC 9554 64-Core Processor\n")
    for path, text in zip(found, texts, strict=True):
        path.write_text(text)
    return found


@pytest.fixture
def machine(sources: list[Path]) -> Topology:
    return read_topologies(sources)


def test_nccl_stages_three_and_more_but_no_pair_on_amd(machine: Topology) -> None:
    found = pipeline.transport_of(machine)
    assert found is not None
    assert found.staging is Staging.NCCL
    assert 1 <= found.low <= found.nominal <= found.high
    direct, staged = (
        group_rate(with_peer_access(machine, peer_access=on), range(4)) for on in (True, False)
    )
    assert found.nominal == pytest.approx(direct.bytes_per_s / staged.bytes_per_s)
    assert pipeline.transport_of(machine, [0, 1]) is None
    other = replace(machine, metadata={**machine.metadata, CPU_NAME: "Intel Xeon Gold 6430"})
    assert pipeline.transport_of(other, [0, 1]) is not None


def test_the_environment_counts_where_the_machine_is_this_one(machine: Topology) -> None:
    assert pipeline.transport_of(machine, environment={"NCCL_P2P_LEVEL": "SYS"}) is None
    found = pipeline.transport_of(machine, environment={"NCCL_P2P_DISABLE": "1"})
    assert found is not None
    assert found.setting == "NCCL_P2P_DISABLE=1"


def test_what_nccl_does_plays_no_part_without_groups(machine: Topology) -> None:
    assert pipeline.transport_of(machine, traffic=pattern_traffic("stencil2d:2x2")) is None
    assert pipeline.transport_of(machine, traffic=pattern_traffic("llm:tp=4,dp=1")) is not None


def test_device_links_need_no_transport() -> None:
    assert pipeline.transport_of(read_topology("hgx-h100")) is None
    assert pipeline.transport_of(read_topology("mi300x-8")) is None


def test_cards_without_peer_access_are_staged_unless_told(sources: list[Path]) -> None:
    sources[1].write_text(listed("NVIDIA GeForce RTX 4090"))
    found = pipeline.transport_of(read_topologies(sources))
    assert found is not None
    assert found.staging is Staging.PRODUCT
    rows = ["\t" + "\t".join(f"GPU{i}" for i in range(4))]
    rows += [f"GPU{i}\t" + "\t".join("X" if i == j else "OK" for j in range(4)) for i in range(4)]
    told = sources[0].with_name("p2p.txt")
    told.write_text("$ nvidia-smi topo -p2p r\n" + "\n".join(rows) + "\n")
    found = pipeline.transport_of(read_topologies([*sources, told]))
    assert found is not None
    assert found.staging is Staging.NCCL


def test_it_is_the_first_line_of_all_three(
    sources: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    named = [word for source in sources for word in ("-t", str(source))]
    for command in (["doctor"], ["choose", "4"], ["map", "llm:tp=4,dp=1"]):
        assert main([*command, *named]) == 0
        out = capsys.readouterr().out
        assert out.startswith("Transport NCCL stages groups of these GPUs in host memory"), out
        assert "NCCL_P2P_LEVEL=SYS" in out
        assert "IOMMU" in out
