"""Memory nodes, sockets, cores and caches: as cells and lscpu tell them, whatever a class says."""

from itertools import combinations
from pathlib import Path

import pytest

from tests.topology.readers.recorded import machine_of
from toposeat.errors import InputError
from toposeat.mapping import seat_ranks
from toposeat.model.topology import ComponentKind, LinkKind, PathClass
from toposeat.topology import findings_of
from toposeat.topology.readers import lscpu
from toposeat.topology.readers.file_text import FileText

NODES = ("0-15,64-79", "16-31,80-95", "32-47,96-111", "48-63,112-127")


def lscpu_text(nodes=NODES, sockets=1, threads=2):
    listed = "".join(f"NUMA node{at} CPU(s):  {cpus}\n" for at, cpus in enumerate(nodes))
    return (
        "Architecture:  x86_64\nVendor ID:  AuthenticAMD\nModel name:  AMD EPYC 7713\n"
        f"Thread(s) per core:  {threads}\nSocket(s):  {sockets}\nL3 cache: 256 MiB (8 instances)\n"
        f"NUMA node(s):  {len(nodes)}\n{listed}"
    )


def table(words, *cells, heads="CPU Affinity\tNUMA Affinity"):
    """A matrix by its upper half, a word of letters for each GPU, and the cells behind it."""
    count = len(cells)
    names = [f"GPU{at}" for at in range(count)]
    spelt = {"p": "PIX", "n": "NODE", "s": "SYS", "v": "NV4"}
    word = {(i, j): spelt[words[i][j - i - 1]] for i, j in combinations(range(count), 2)}
    lines = ["\t".join(["", *names, heads])]
    for i, cell in enumerate(cells):
        row = [word.get((min(i, j), max(i, j)), " X ") for j in range(count)]
        lines.append("\t".join([names[i], *row, cell]))
    return "\n".join(lines) + "\n"


def parts_of(text):
    return {c.id: c for c in lscpu.parse(FileText(text, Path("lscpu.txt"))).components}


def test_lscpu_tells_nodes_sockets_threads_and_caches():
    parts = parts_of(lscpu_text())
    assert (parts["numa1"].cpus, parts["numa1"].cores[:2]) == (NODES[1], ("16,80", "17,81"))
    assert parts["numa1"].caches == ("16-23,80-87", "24-31,88-95")
    assert parts["package0"].cpus == "0-127"
    assert "package1" in parts_of(lscpu_text(sockets=2))
    assert "package0" not in parts_of(lscpu_text(sockets=128))  # each CPU of a guest


@pytest.mark.parametrize(
    ("nodes", "threads", "cores"),
    [
        (("0-7",), 2, ("0,4", "1,5", "2,6", "3,7")),
        (("0-3", "4-7"), 2, ("0-1", "2-3")),
        (("0-7",), 4, ("0-3", "4-7")),
        (("0-3",), 1, ("0", "1", "2", "3")),
        (("0-2",), 2, ()),  # a CPU is off: its core is not told
    ],
)
def test_threads_of_a_core(nodes, threads, cores):
    assert parts_of(lscpu_text(nodes, threads=threads))["numa0"].cores == cores


def test_a_damaged_list_of_lscpu():
    with pytest.raises(InputError, match="not a CPU list") as caught:
        parts_of(lscpu_text(("0-3", "4-x")))
    assert caught.value.line == 9


def test_nodes_of_a_socket_are_joined_on_its_die(tmp_path):
    rows = [f"{cpus}\t{node}" for node, cpus in enumerate(NODES)]
    text = table(["sss", "ss", "s"], *rows)
    apart, joined = machine_of(tmp_path, text), machine_of(tmp_path, text, lscpu_text())
    assert [x.kind for x in apart.links].count(LinkKind.SMP) == 6
    dies = [c.id for c in joined.components if c.kind is ComponentKind.PACKAGE]
    smp = [link for link in joined.links if link.kind is LinkKind.SMP]
    assert len(dies) == 1
    assert len(smp) == 4
    assert all(dies[0] in link.ends for link in smp)
    assert all(route.path_class is PathClass.SYS for route in joined.routes)
    two = machine_of(tmp_path, text, lscpu_text(sockets=2))
    assert [c.kind for c in two.components].count(ComponentKind.PACKAGE) == 2
    seats = seat_ranks(joined, 6, [0, 0, 0, 1, 2, 3]).seats
    assert [seat.cpus for seat in seats[:3]] == ["0-5,64-69", "6-10,70-74", "11-15,75-79"]


def test_lscpu_completes_cells(tmp_path):
    text = table(["s"], "16-31,80-95", "", heads="CPU Affinity")
    found = machine_of(tmp_path, text, lscpu_text())
    assert [d.numa_node for d in found.devices] == [1, None]
    text = table(["s"], "\t1", "\t3")
    assert [d.cpus for d in machine_of(tmp_path, text, lscpu_text()).devices] == [
        NODES[1],
        NODES[3],
    ]


def test_sys_within_a_memory_node_is_no_other_socket(tmp_path):
    """Cells put two GPUs on each node, a class says that they are SYS."""
    text = table(["sss", "ss", "s"], "0-15\t0", "0-15\t0", "16-31\t1", "16-31\t1")
    mixed = table(["sns", "sn", "s"], "0-15\t0", "16-31\t1", "0-15\t0", "16-31\t1")
    half = table(["sss", "ss", "n"], "0-15\t0", "0-15\t0", "16-31\t1", "16-31\t1")
    for each in (text, mixed, half):
        found = machine_of(tmp_path, each)
        nodes = [c for c in found.components if c.kind is ComponentKind.NUMA]
        assert sorted(c.numa_node or 0 for c in nodes) == [0, 1]
        assert not [f for f in findings_of(found) if f.code == "affinity-contradiction"]
    found = machine_of(tmp_path, half)
    route = found.route_of_pair["gpu0", "gpu1"]
    assert route.path_class is PathClass.SYS  # the word stays, the way is within the node
    assert LinkKind.SMP not in {found.link_of_id[link].kind for link in route.links}


CUT = ["0,2,4,6,8,10\t0", "0,2,4,6,8,10\t0", "1,3,5,7,9,11\t1", "1,3,5,7,9,11\t1"]


@pytest.mark.parametrize(
    "cells", [CUT, ["4,6,8,10,12\t0"] * 4, ["0-15,\t0"] * 2 + ["16-31,48-\t1"] * 2]
)
def test_a_list_that_a_tool_cut_is_not_used(cells, tmp_path):
    text = table(["nss", "ss", "n"] if cells[0] != cells[-1] else ["nnn", "nn", "n"], *cells)
    found = machine_of(tmp_path, text)
    assert {seat.cpus for seat in seat_ranks(found, 4, range(4)).seats} == {None}
    assert [d.numa_node for d in found.devices] == [int(cell[-1]) for cell in cells]
    (doubt,) = [f for f in findings_of(found) if f.code == "cpus-cut"]
    assert cells[0].partition("\t")[0] in doubt.detail
    even, odd = (",".join(map(str, range(at, 32, 2))) for at in range(2))
    whole = machine_of(tmp_path, text, lscpu_text((even, odd), sockets=2))
    assert not [f for f in findings_of(whole) if f.code.startswith("cpus-")]
    cpus = seat_ranks(whole, 4, range(4)).seats[0].cpus
    assert cpus == ("0,2,16,18" if cells[0] == cells[-1] else "0,2,4,6,16,18,20,22")


@pytest.mark.parametrize(
    "cells",
    [
        ["6,14,22,30\t3", "4,12,20,28\t1", "7,15,23,31\t7", "5,13,21,29\t5"],
        ["0,2,4,6,8,10,12,14\t0", "1,3,5,7,9,11,13,15\t1"],
        ["0-5\t0", "6-11\t1"],
    ],
)
def test_a_list_that_is_whole_is_used(cells, tmp_path):
    words = ["s" * at for at in range(len(cells) - 1, 0, -1)]
    found = machine_of(tmp_path, table(words, *cells))
    assert [d.cpus for d in found.devices] == [cell.partition("\t")[0] for cell in cells]


def test_nodes_of_grace_begin_below_the_lowest_of_all_gpus(tmp_path):
    heads = "CPU Affinity\tNUMA Affinity\tGPU NUMA ID"
    cells = ("0-71\t0,3-9,11-17\t\t2", "0-71\t0,3-9,11-17\t\t10", "72-143\t1,19-25\t\t18")
    found = machine_of(tmp_path, table(["vv", "v"], *cells, heads=heads))
    assert [d.numa_node for d in found.devices] == [0, 0, 1]
