"""Files that hold the outputs of several commands: cut apart, each read by its reader."""

from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.topology.readers.recorded import FORMATS, as_facts, parts_of, parts_of_text
from tests.topology.readers.render import RENDERERS
from tests.topology.readers.test_samples import SAMPLES, UUIDS
from toposeat.errors import InputError
from toposeat.model.processor import CPU_NAME
from toposeat.topology import parse_topology_text

TOPO = RENDERERS["tabs_new"]([["X", "NV4"], ["NV4", "X"]], 2, ["0-15", "16-31"])
PCIE = RENDERERS["tabs_new"]([["X", "SYS"], ["SYS", "X"]], 2, ["0-15", "16-31"]).replace(
    "  NV#  = Connection traversing a bonded set of # NVLinks\n", ""
)
P2P = SAMPLES["nvidia-smi topo -p2p"].replace("GNS", "OK")
NVLINK = SAMPLES["nvidia-smi nvlink -s and -L"]
LIST = "".join(f"GPU {i}: NVIDIA L4 (UUID: {each})\n" for i, each in enumerate(UUIDS))
OUTPUTS = {  # of tables
    **{
        kind.name: (kind.command.partition(" > ")[0], SAMPLES[kind.name])
        for kind in FORMATS
        if kind.heading and kind.reader not in ("sysfs_snapshot:text", "lspci")
    },
    "topo": ("nvidia-smi topo -m", TOPO),
    "pcie": ("nvidia-smi topo -mp", PCIE),
    "p2p": ("nvidia-smi topo -p2p r", P2P),
}


def parts(text):
    return [as_facts(part) for part in parts_of_text(text)]


def joined(names, *, prompt, blank):
    return "".join(
        (f"user@node:~$ {OUTPUTS[name][0]}\n" if prompt else "")
        + OUTPUTS[name][1]
        + ("\n" if blank else "")
        for name in names
    )


@settings(max_examples=60, deadline=None)
@given(
    names=st.lists(st.sampled_from(sorted(OUTPUTS)), min_size=2, max_size=7, unique=True),
    prompt=st.booleans(),
    blank=st.booleans(),
)
def test_every_output_is_read_as_if_alone(names, prompt, blank):
    found = parts(joined(names, prompt=prompt, blank=blank))
    for part, name in zip(found, names, strict=True):
        (alone,) = parts(joined([name], prompt=prompt, blank=blank))
        assert part.origin == alone.origin
        assert part.devices == alone.devices
        assert part.pairs == alone.pairs
        assert part.lanes == alone.lanes
        assert len(part.numbers) == len(alone.numbers)
        assert part.report == alone.report
        assert part.metadata == alone.metadata


def test_no_recorded_file_is_cut(shared_dir):
    """Each recorded file is one output."""
    for path in sorted((shared_dir / "machines").glob("*/*.[tcm][xsd][tv]*")):
        try:
            assert len(parts_of(path)) == 1, path
        except InputError:  # of one reader
            continue


def test_errors_keep_the_line_of_the_file():
    text = joined(["nvidia-smi nvlink -s and -L", "topo"], prompt=True, blank=True)
    line = text[: text.index("NV4")].count("\n") + 1
    with pytest.raises(InputError, match="unknown word 'NW4'") as caught:
        parts(text.replace("NV4", "NW4", 1))
    assert caught.value.line == line


@pytest.mark.parametrize("cut", [0, 6])  # with its heading, and without
def test_a_table_of_nvidia_smi_stands_anywhere(cut):
    """Also twice, as of before and during a job, and with names that are cut."""
    text = SAMPLES["nvidia-smi"].replace("NVIDIA L4", "NVIDIA...")
    lines = text.splitlines(keepends=True)
    texts = ["".join(lines[cut:]), "".join(lines).replace("P8", "P0"), LIST, TOPO]
    for order in permutations(texts):
        machine = parse_topology_text("".join(order), Path("all.txt"))
        assert [d.name for d in machine.devices] == ["NVIDIA L4"] * 2
        assert [d.pci_bus_id for d in machine.devices] == ["0000:17:00.0", "0000:ca:00.0"]
        assert [d.uuid for d in machine.devices] == list(UUIDS)


def test_the_processor_of_any_part_is_that_of_the_machine():
    machine = parse_topology_text(
        joined(["lscpu", "topo"], prompt=True, blank=True), Path("all.txt")
    )
    assert machine.metadata[CPU_NAME] == "AMD EPYC 7302 16-Core Processor"
    assert len(machine.devices) == 2
