"""The transport of a group: where it outweighs any order it comes first, with what settles it."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.processes import ran
from toposeat import pipeline
from toposeat.cli.main import main
from toposeat.evaluation import GroupRates, group_rate
from toposeat.model.health import Health
from toposeat.model.placement_file import load_placement
from toposeat.model.processor import CPU_NAME
from toposeat.model.transport import Staging, nccl_setting
from toposeat.profile import pattern_traffic
from toposeat.report import render_health_text
from toposeat.topology import read_topologies, read_topology, save_topology, with_peer_access

TOPOSEAT = (str(Path(sys.executable).with_name("toposeat")),)
TOPO = """\
\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNODE\tNODE\tNODE\t0-31\t0
GPU1\tNODE\t X \tNODE\tNODE\t0-31\t0
GPU2\tNODE\tNODE\t X \tNODE\t0-31\t0
GPU3\tNODE\tNODE\tNODE\t X \t0-31\t0
"""


def listed(name):
    return "".join(
        f"GPU {i}: {name} (UUID: GPU-{i:08x}-0000-0000-0000-{i:012x})\n" for i in range(4)
    )


@pytest.fixture
def sources(tmp_path):
    found = [tmp_path / name for name in ("topo.txt", "list.txt", "lscpu.txt")]
    texts = (TOPO, listed("NVIDIA L40S"), "Model name: AMD EPYC 9554 64-Core Processor\n")
    for path, text in zip(found, texts, strict=True):
        path.write_text(text)
    return found


@pytest.fixture
def machine(sources):
    return read_topologies(sources)


def test_nccl_stages_three_and_more_but_no_pair_on_amd(machine):
    found = pipeline.transport_of(machine)
    assert found.staging is Staging.NCCL
    assert 1 <= found.low <= found.nominal <= found.high
    direct, staged = (
        group_rate(with_peer_access(machine, peer_access=on), range(4)) for on in (True, False)
    )
    assert found.nominal == pytest.approx(direct.bytes_per_s / staged.bytes_per_s)
    assert pipeline.transport_of(machine, [0, 1]) is None
    other = replace(machine, metadata={**machine.metadata, CPU_NAME: "Intel Xeon Gold 6430"})
    assert pipeline.transport_of(other, [0, 1]) is not None


def test_the_environment_counts_where_the_machine_is_this_one(machine):
    assert pipeline.transport_of(machine, environment={"NCCL_P2P_LEVEL": "SYS"}) is None
    found = pipeline.transport_of(machine, environment={"NCCL_P2P_DISABLE": "1"})
    assert found.setting == "NCCL_P2P_DISABLE=1"


def test_what_nccl_does_plays_no_part_without_groups(machine):
    assert pipeline.transport_of(machine, traffic=pattern_traffic("stencil2d:2x2")) is None
    assert pipeline.transport_of(machine, traffic=pattern_traffic("llm:tp=4,dp=1")) is not None


def test_device_links_need_no_transport():
    assert pipeline.transport_of(read_topology("hgx-h100")) is None
    assert pipeline.transport_of(read_topology("mi300x-8")) is None


def test_cards_without_peer_access_are_staged_unless_told(sources):
    sources[1].write_text(listed("NVIDIA GeForce RTX 4090"))
    found = pipeline.transport_of(read_topologies(sources))
    assert found.staging is Staging.PRODUCT
    rows = ["\t" + "\t".join(f"GPU{i}" for i in range(4))]
    rows += [f"GPU{i}\t" + "\t".join("X" if i == j else "OK" for j in range(4)) for i in range(4)]
    told = sources[0].with_name("p2p.txt")
    told.write_text("$ nvidia-smi topo -p2p r\n" + "\n".join(rows) + "\n")
    found = pipeline.transport_of(read_topologies([*sources, told]))
    assert found.staging is Staging.NCCL


MEASURED = """\
[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]
Device: 0, NVIDIA L40S, pciBusID: 1, pciDeviceID: 0, pciDomainID:0
Device: 1, NVIDIA L40S, pciBusID: 41, pciDeviceID: 0, pciDomainID:0
Device: 2, NVIDIA L40S, pciBusID: 81, pciDeviceID: 0, pciDomainID:0
Device: 3, NVIDIA L40S, pciBusID: c1, pciDeviceID: 0, pciDomainID:0
"""


def matrix_of(title, rate):
    rows = ["   D\\D" + "".join(f"{i:7}" for i in range(4))]
    rows += [
        f"{i:6}" + "".join(f"{700 if i == j else rate:7.2f}" for j in range(4)) for i in range(4)
    ]
    return f"Unidirectional {title} Bandwidth Matrix (GB/s)\n" + "\n".join(rows) + "\n"


def with_measured(sources, direct, staged):
    peers = [
        f"Device={i} CAN Access Peer Device={j}\n" for i in range(4) for j in range(4) if i != j
    ]
    path = sources[0].with_name("measured.txt")
    tables = matrix_of("P2P=Disabled", staged), matrix_of("P2P=Enabled", direct)
    path.write_text(MEASURED + "".join([*peers, *tables]))
    sources[2].write_text("Model name: Intel(R) Xeon(R) Gold 6430\n")  # where pairs are staged, too
    return read_topologies([*sources, path])


def test_measured_rates_beat_the_table(sources):
    """A group is no better off than its pairs, and nobody is sent to ask for peer access."""
    machine = with_measured(sources, 20.0, 10.0)
    found = pipeline.transport_of(machine, [0, 1])
    save_topology(machine, path := sources[0].with_name("machine.json"))
    assert pipeline.transport_of(read_topology(path), [0, 1]) == found
    assert found.is_told
    assert found.low == found.nominal == pytest.approx(2)
    said = render_health_text(None, Health(transport=found))
    assert said.startswith("Transport")
    assert "topo -p2p r" not in " ".join(said.split())


@pytest.mark.parametrize("direct", [9.9, 20.0, 22.0])
def test_staging_that_was_measured_as_fast_or_faster_stays(sources, direct):
    assert pipeline.transport_of(with_measured(sources, direct, 22.0), [0, 1]) is None


def test_no_line_to_copy_where_staging_may_be_as_fast(sources):
    """Neither product nor processor is told, and some of them stage as fast as they copy."""
    found = pipeline.transport_of(read_topology(sources[0]), [0, 1])
    assert found.low < 1 < found.nominal < found.high
    said = render_health_text(None, Health(transport=found))
    assert said.startswith("Transport")
    assert "NCCL_P2P_LEVEL" not in said


@pytest.mark.parametrize(
    ("name", "devices", "direct", "staged"),
    [("turin-pro6000-8-nps4", range(4), 39.82, 13.17), ("l40s-4", range(2), 21.11, 17.28)],
)
def test_the_range_holds_what_was_published(shared_dir, name, devices, direct, staged):
    machine = read_topology(shared_dir / "field/machines" / f"{name}.txt")
    found = pipeline.transport_of(machine, devices)
    assert found.low <= direct / staged <= found.high


def test_it_is_the_first_line_of_all_three(sources, capsys):
    named = [word for source in sources for word in ("-t", str(source))]
    for command in (["doctor"], ["choose", "4"], ["map", "llm:tp=4,dp=1"]):
        assert main([*command, *named]) == 0
        out = capsys.readouterr().out
        assert out.startswith("Transport NCCL stages groups of these GPUs in host memory"), out
        assert "NCCL_P2P_LEVEL=SYS" in out
        assert "IOMMU" in out


@pytest.mark.parametrize(
    "words", [["doctor"], ["choose", "2"], ["map", "llm:tp=2,dp=2", "-t", "this"]]
)
def test_a_variable_that_decides_the_prediction_is_named(words):
    done = ran(
        [*TOPOSEAT, "emulate", "-t", "rtx-4-crossed-bridges", "--", *TOPOSEAT, *words],
        env={**os.environ, "NCCL_P2P_LEVEL": "LOC"},
        check=True,
    )
    assert "NCCL_P2P_LEVEL=LOC: groups of NCCL are predicted with it" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("variables", "text", "direct"),
    [
        ({}, None, ""),
        ({"NCCL_P2P_LEVEL": "nonsense"}, None, ""),
        ({"NCCL_P2P_DISABLE": "0"}, None, ""),
        ({"NCCL_P2P_DISABLE": "1", "NCCL_P2P_LEVEL": "SYS"}, "NCCL_P2P_DISABLE=1", ""),
        ({"NCCL_P2P_LEVEL": "LOC"}, "NCCL_P2P_LEVEL=LOC", ""),
        ({"NCCL_P2P_LEVEL": "0"}, "NCCL_P2P_LEVEL=0", ""),
        ({"NCCL_P2P_LEVEL": "PXB"}, "NCCL_P2P_LEVEL=PXB", "PIX PXB"),
        ({"NCCL_P2P_LEVEL": "2"}, "NCCL_P2P_LEVEL=2", "PIX PXB"),
        ({"NCCL_P2P_LEVEL": "PHB"}, "NCCL_P2P_LEVEL=PHB", "PIX PXB PHB NODE"),
        ({"NCCL_P2P_LEVEL": "4"}, "NCCL_P2P_LEVEL=4", "PIX PXB PHB NODE SYS"),
        ({"NCCL_P2P_LEVEL": "9"}, "NCCL_P2P_LEVEL=9", "PIX PXB PHB NODE SYS"),
    ],
)
def test_settings_are_taken_as_nccl_takes_them(variables, text, direct):
    found = nccl_setting(variables)
    assert (None if found is None else found.text) == text
    classes = set() if found is None else {each.value for each in found.direct}
    assert classes == set(direct.split())


def rate_with(machine, devices, **variables):
    """The least and the most of a set's rate where a variable of NCCL is set."""
    setting = nccl_setting(variables)
    return GroupRates(pipeline.as_nccl_is_set(machine, setting)).range_of(tuple(devices))


def test_a_setting_leaves_one_of_nccls_two_ways(machine):
    low, high = rate_with(machine, [0, 1, 2, 3])
    direct = rate_with(machine, [0, 1, 2, 3], NCCL_P2P_LEVEL="SYS")
    staged = rate_with(machine, [0, 1, 2, 3], NCCL_P2P_LEVEL="PXB")
    assert low <= staged[0] <= staged[1] < direct[1] <= high
    off = rate_with(machine, [0, 1, 2, 3], NCCL_P2P_DISABLE="1")
    assert off == staged
    # Two GPUs on AMD are never staged, but by a variable.
    assert rate_with(machine, [0, 1], NCCL_P2P_LEVEL="PXB")[1] < rate_with(machine, [0, 1])[1]


def test_pairs_on_one_switch_are_staged_only_where_nothing_is_direct():
    switches = read_topology("l40s-8")
    inside, as_it_is = [0, 1, 2, 3], rate_with(switches, [0, 1, 2, 3])
    assert rate_with(switches, inside, NCCL_P2P_LEVEL="PIX") == as_it_is
    assert rate_with(switches, inside, NCCL_P2P_LEVEL="LOC") < as_it_is


def test_map_takes_the_setting_that_is_named(tmp_path, sources, capsys):
    words = [word for path in sources for word in ("-t", str(path))]

    def seconds(*more):
        place = tmp_path / "job.place"
        job = ["map", "llm:tp=4,dp=1", *words, "-o", str(place), "--force", *more]
        assert main(job) == 0
        metadata = load_placement(place).metadata
        assert metadata.get("stack", "") == (more[1] if more else "")
        return float(metadata["predicted_s_default"])

    direct = seconds("--stack", "NCCL_P2P_LEVEL=SYS")
    assert "NCCL_P2P_LEVEL=SYS: groups of NCCL are predicted with it" in capsys.readouterr().out
    assert direct < seconds("--stack", "NCCL_P2P_DISABLE=1")
    assert main(["map", "llm:tp=4,dp=1", *words, "--stack", "NCCL_P2P_LEVEL=ALL"]) == 2
    assert "hint:  NCCL_P2P_LEVEL=LOC, NVL" in capsys.readouterr().err


def test_map_on_this_machine_takes_the_variable_of_this_environment(tmp_path):
    def predicted(**variables):
        job = ["map", "llm:tp=4,dp=2", "-t", "this", "-o", str(tmp_path / "job.place"), "--force"]
        command = [*TOPOSEAT, "emulate", "-t", "l40s-8", "--", *TOPOSEAT, *job]
        done = ran(command, env={**os.environ, **variables})
        assert done.returncode == 0, done.stderr
        said = "NCCL_P2P_DISABLE=1: groups of NCCL are predicted with it" in done.stdout
        assert said == bool(variables)
        return load_placement(tmp_path / "job.place").metadata["predicted_s_default"]

    assert float(predicted()) < float(predicted(NCCL_P2P_DISABLE="1"))
