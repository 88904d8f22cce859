"""What people paste: known tables inside any text, cut anywhere, beside what is not read."""

from pathlib import Path

import pytest

from tests.topology.readers.recorded import FORMATS, parts_of_text
from tests.topology.readers.test_samples import SAMPLES
from toposeat.errors import InputError
from toposeat.model.processor import CPU_NAME
from toposeat.model.shell_words import joined_sources
from toposeat.model.topology import PathClass
from toposeat.model.visible_list import numbering_note
from toposeat.topology import parse_topology_text, read_topologies, read_topology

MATRIX = """\
        GPU0    GPU1    CPU Affinity    NUMA Affinity
GPU0     X      NV4     0-15    0
GPU1    NV4      X      16-31   1
"""


@pytest.fixture(scope="module")
def cases(shared_dir):
    """Inputs of public threads."""
    return shared_dir / "cases/topology"


def test_what_vllm_collects_is_read(cases):
    machine = read_topology(str(cases / "17-vllm-collect-env/collect_env.txt"))
    name = "NVIDIA RTX PRO 6000 Blackwell Workstation Edition"
    assert [device.name for device in machine.devices] == [name] * 2
    assert machine.route_of_pair["gpu0", "gpu1"].path_class is PathClass.NODE
    assert machine.metadata[CPU_NAME] == "AMD Ryzen Threadripper PRO"


def test_results_of_nvbandwidth_whose_beginning_is_cut(cases):
    machine = read_topology(str(cases / "19-nvbandwidth-without-device-list/nvbandwidth.txt"))
    assert [device.name for device in machine.devices] == [""] * 6
    cap = machine.route_of_pair["gpu3", "gpu0"].cap_bytes_per_s  # a read copies from the column
    assert cap is not None
    assert cap.value == 21.95e9


def test_sums_of_both_directions_are_no_rate_of_one(cases):
    case = cases / "05-bidirectional-only-one-slow"
    machine = read_topologies([str(case / "topo.txt"), str(case / "p2p.txt")])
    assert any("table of one direction" in line for line in machine.report)
    with pytest.raises(InputError, match="without its table of one direction"):
        read_topology(str(case / "p2p.txt"))


@pytest.mark.parametrize("prompt", ["$ ", "# ", "root@box:~# ", "(base) me@box:~/x$ ", "> "])
def test_prompts_and_fences_around_a_query(prompt):
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


def test_each_part_of_a_machine_of_the_field_is_read(shared_dir):
    """Heads of outputs in these files, one a kind, and what is named as read."""
    heads = {
        "lscpu": "Model name:",
        "nvidia-smi -L text": "GPU 0: ",
        "nvidia-smi topo -m text": "\tGPU0\tGPU1",
        "nvidia-smi topo -p2p text": "topo -p2p",
        "nvidia-smi --query-gpu CSV": "index, name",
    }
    for path in sorted((shared_dir / "field/machines").glob("*.txt")):
        text = path.read_text()
        machine = read_topology(str(path))
        there = [origin for origin, head in heads.items() if head in text]
        assert all(f"{origin} (line" in machine.report[0] for origin in there), path
        assert all(device.name for device in machine.devices)
        assert (CPU_NAME in machine.metadata) is ("lscpu" in there)


@pytest.mark.parametrize(
    ("name", "what", "instead"),
    [
        ("lstopo.txt", "text of lstopo", "lstopo --of xml --whole-io"),
        ("amd-smi-static.txt", "output of amd-smi static", "amd-smi topology"),
    ],
)
def test_published_pastes_that_are_no_machine(cases, name, what, instead):
    with pytest.raises(InputError, match=f"this is {what}: not read") as caught:
        read_topology(str(cases / "37-lspci-and-lstopo-text" / name))
    assert instead in caught.value.hint


def test_a_message_instead_of_a_matrix_names_the_command(cases):
    with pytest.raises(InputError, match="a message of nvidia-smi topo") as caught:
        read_topology(str(cases / "69-topo-message-only/topo.txt"))
    assert "nvidia-smi topo -m" in caught.value.hint


def test_a_table_behind_a_long_log():
    log = "".join(f"2026-01-02 step {step} loss {step % 7}.25\n" for step in range(30_000))
    for head in ("", "GPU0 is an NVIDIA A40\nGPU 0: 33 C\n", "Architecture: transformer\n"):
        machine = parse_topology_text(head + 2 * log + MATRIX, Path("train.log"))
        assert [device.cpus for device in machine.devices] == ["0-15", "16-31"]
    with pytest.raises(InputError, match="missing") as caught:
        parse_topology_text(
            log + MATRIX.replace("GPU1    NV4      X      16-31   1\n", "\n\n"), Path("x")
        )
    assert caught.value.line == 30_003
    with pytest.raises(InputError, match="unknown format"):
        parse_topology_text(log, Path("train.log"))


def test_a_text_without_any_table_says_what_to_paste():
    with pytest.raises(InputError, match="unknown format") as caught:
        parse_topology_text("ROCm 6.2 hangs", Path("paste.txt"))
    for command in ("nvidia-smi topo -m", "amd-smi topology"):
        assert command in caught.value.hint


WAYS = {
    "fence": "### It hangs\n\nSee:\n\n```\nroot@box:~# COMMAND\nTEXT```\n\nThanks (really)!\n",
    "details": "<details>\n<summary>x</summary>\n\n```\nTEXT```\n</details>\n\n- [x] I searched\n",
    "log": "2026-01-02T03:04:05.678Z TEXT\n2026-01-02T03:04:06Z done\n",
    "compose": "vllm-1  | INFO 1, 2\nvllm-1  | TEXT\nvllm-1  | \nvllm-1  | ready\n",
    "quote": "On Monday Joe wrote:\n\n> TEXT\n\nbye\n",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [each for each in FORMATS if not each.name.startswith("toposeat")])
def test_every_format_inside_of_other_text(kind, way):
    sample = SAMPLES[kind.name]
    text = WAYS[way].replace("COMMAND", kind.command.partition(" > ")[0])
    lines = {"log": "2026-01-02T03:04:05.789Z ", "compose": "vllm-1  | ", "quote": "> "}
    inside = sample
    if way in lines:
        inside = sample.rstrip("\n").replace("\n", f"\n{lines[way]}")
    alone, found = (parts_of_text(each) for each in (sample, text.replace("TEXT", inside)))
    for mine, theirs in zip(alone, found, strict=True):
        assert mine.devices == theirs.devices
        assert mine.pairs == theirs.pairs
        assert len(mine.links) == len(theirs.links)
        assert mine.metadata == theirs.metadata
        assert len(mine.numbers) == len(theirs.numbers)


@pytest.mark.parametrize("kind", [each for each in FORMATS if each.reader != "toposeat_json"])
def test_the_processor_before_or_behind_every_format(kind):
    processor = "Model name:   AMD EPYC 9554 64-Core Processor\n"
    sample = SAMPLES[kind.name]
    for text in (processor + sample, f"{sample}\n{processor}"):
        parts = parts_of_text(text)
        told = {part.metadata[CPU_NAME] for part in parts if CPU_NAME in part.metadata}
        assert "AMD EPYC 9554 64-Core Processor" in told or kind.reader == "lscpu"
        assert any(part.devices for part in parts) or kind.reader == "lscpu"


def test_numbers_of_a_benchmark_alone_are_those_of_cuda(cases):
    alone = read_topology(str(cases / "41-measured-one-on-other-socket-mixed/p2p.txt"))
    assert numbering_note(alone).endswith("by PCI bus id: D3 is 5, D4 is 3, D5 is 4")
    assert numbering_note(read_topology("dgx-1v")) == ""


def test_names_peer_access_and_rates_beside_a_matrix(cases):
    case = cases / "07-geforce-pix-slower-4"
    files = [str(case / name) for name in ("topo.txt", "list.txt", "p2p.txt")]
    machine = read_topology(joined_sources(files))
    assert {device.name for device in machine.devices} == {"NVIDIA GeForce RTX 4090"}
    assert not any(route.peer_access for route in machine.routes)
    case = cases / "39-measured-pairs-tie"
    measured = read_topologies([str(case / "topo.txt"), str(case / "p2p.txt")])
    caps = [
        measured.route_of_pair[ends].cap_bytes_per_s
        for ends in (("gpu2", "gpu3"), ("gpu0", "gpu1"))
    ]
    assert [cap and cap.value for cap in caps] == [20e9, 10e9]
    assert all(route.path_class is PathClass.NODE for route in measured.routes)
