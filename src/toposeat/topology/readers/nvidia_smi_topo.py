"""Readers of `nvidia-smi topo`: relations (-m, -mp) of every header generation, and -p2p.

The rule: what the text says is taken exactly, what it lacks is reported, a table that is damaged
beyond its rows is refused. NVIDIA prints a full symmetric matrix with one row per column, so
anything else is damage; only hand-made markdown tables may leave the NIC rows out.

`-p2p` prints one of five capabilities (r, w, n, a, p), and the output does not say which. Where the
command itself was saved too, it decides; else reading (r) is assumed, and said so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from toposeat.model.cpu_list import format_cpu_list, parse_cpu_list
from toposeat.model.topology import Device, FactKind, Nic, PathClass, Topology, Vendor
from toposeat.topology.readers.cells import (
    check_symmetric,
    cpu_affinity,
    cut_lists,
    unknown_pairs,
    words_of,
)
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.mending import with_damaged_rows
from toposeat.topology.readers.tables import Line, Row, Table, TableSpec, clean_lines, find_table
from toposeat.topology.relation import (
    KNOWN_TOKENS,
    OLD_WORDS,
    UNKNOWN,
    WORDS,
    Place,
    Relation,
    relation_of_token,
)
from toposeat.topology.told import CUT_LISTS, told_machine

_LABEL = r"(?!NV\d)[A-Za-z][\w.\-]*\d\w*"
MATRIX = TableSpec(  # of -p2p as well, with other words
    label=re.compile(_LABEL, re.ASCII),
    first=r"GPU\d+(?!\w)",
    joined=re.compile(r"(?:GPU|NIC)\d+|mlx\d+_(?:bond_)?\d+", re.ASCII),
    is_cell=lambda word: relation_of_token(word) is not None,
    cells=f"a relation ({KNOWN_TOKENS})",
    learns=True,
    mark="X",
    extras=(
        (r"cpu\s*affinity", "cpu"),
        (r"(?:numa|node)\s*affinity", "numa"),
        (r"gpu\s*numa\s*id", "gpu"),
    ),
    empty="cpu",  # in a job whose CPU set has none that is near
    mends=True,
)
_FAILED = re.compile(
    r"NVIDIA-SMI has failed|Failed to initialize NVML|No devices were found|command not found"
    r"|couldn't communicate with the NVIDIA driver|Unable to determine the device handle",
    re.IGNORECASE,
)
_COMMAND = re.compile(r"\btopo\s+(-mp?|--matrix(?:_pci)?)\b")
_NODE = re.compile(r"\d{1,4}", re.ASCII)
_OWN_NODES = (7, 8)  # memory nodes of one Grace GPU: eight, or those after its own NUMA id
_PCIE_ONLY = ("-mp", "--matrix_pci")
_LEGEND = re.compile(r"^\W*PIX\s*=\s*Connection", re.MULTILINE)
_NIC_LEGEND = re.compile(r"\s*(NIC\d+)\s*:\s*(\S+)\s*", re.ASCII)
MEANINGS = {
    "OK": "possible",
    "NS": "not supported",
    "CNS": "chipset not supported",
    "GNS": "GPU not supported",
    "TNS": "topology not supported",
    "DR": "disabled by a driver setting",
    "U": "unknown",
}
_P2P = replace(
    MATRIX,
    is_cell=MEANINGS.__contains__,
    cells=f"a state ({', '.join(MEANINGS)})",
    mends=False,  # states may differ by direction
)
_P2P_COMMAND = re.compile(r"topo\s+(?:-p2p|--p2pstatus)\s+([rwnap]{1,2})\b")
_CAPABILITIES = {
    "r": "reading",
    "w": "writing",
    "n": "NVLink",
    "a": "atomic operations",
    "p": "PCIe",
}


def looks_like(file: FileText) -> bool:
    """Whether this is, or was meant to be, output of nvidia-smi."""
    return re.search(r"\bGPU0\b", file.start) is not None or _FAILED.search(file.start) is not None


def _is_pcie_only(text: str, relations: Mapping[Place, Relation]) -> bool:
    """Whether this is `topo -mp`: the command says so, or a legend that does not explain NV#."""
    if any(relation.path_class is PathClass.NVL for relation in relations.values()):
        return False
    command = _COMMAND.search(text)
    if command is not None:
        return command[1] in _PCIE_ONLY
    return _LEGEND.search(text) is not None and "NV#" not in text


def parse(file: FileText) -> Topology:
    """Read the text of `nvidia-smi topo -m` or `-mp`, with whatever surrounds it."""
    text = file.text
    lines = clean_lines(text)
    table = find_table(lines, MATRIX, file)
    if table is None:
        _refuse_without_matrix(lines, file)
    report: list[str] = []
    table = with_damaged_rows(table, MATRIX, file, report)
    gpus = tuple(c for c in table.columns if re.fullmatch(r"GPU\d+", c, re.ASCII))
    nics = tuple(c for c in table.columns if c not in gpus)
    relations = _relations(table, (*gpus, *nics), len(gpus), file, report)
    cpus, nodes = _affinities(table, gpus, file, report)
    cut = cut_lists(cpus)
    cpus = tuple(None if each in cut else each for each in cpus)
    words = {WORDS: OLD_WORDS} if any("SOC" in row.cells for row in table.rows) else {}
    nic_names = _nic_names(lines[table.end :], nics, report)
    _report_cut(text, lines, table, report)
    is_pcie = _is_pcie_only(text, relations)
    if is_pcie:
        report.append("topo -mp shows PCIe only: whether there is NVLink is not stated")
    tells = {FactKind.NICS}
    if all((i, j) in relations for j in range(len(gpus)) for i in range(j)):
        tells.add(FactKind.PCIE_PATHS if is_pcie else FactKind.DEVICE_LINKS)
    if None not in (*cpus, *nodes):
        tells.add(FactKind.AFFINITY)
    return told_machine(
        origin=f"nvidia-smi topo {'-mp' if is_pcie else '-m'} text",
        devices=[
            Device(
                id=label,
                index=int(label[3:]),
                vendor=Vendor.NVIDIA,
                numa_node=nodes[i],
                cpus=cpus[i],
            )
            for i, label in enumerate(gpus)
        ],
        nics=[Nic(id=label, name=nic_names[i]) for i, label in enumerate(nics)],
        relations=None if is_pcie else relations,
        pcie_relations=relations if is_pcie else None,
        tells=tells,
        metadata=words | ({CUT_LISTS: " ".join(sorted(cut))} if cut else {}),
        report=report,
    )


def _relations(
    table: Table, labels: tuple[str, ...], gpus: int, file: FileText, report: list[str]
) -> dict[Place, Relation]:
    """What the table states of each pair, once."""
    cut, nics = len(labels) - len(table.rows), len(labels) - gpus
    if cut == nics > 0:
        report.append("the table has no rows for NICs: relations between NICs are not known")
    elif cut:
        report.append(
            f"{cut} of {nics} rows of NICs are missing or cut: relations between NICs are not all"
            " known"
        )
    cells = words_of(table, labels)
    unknown_pairs(cells, MATRIX.is_cell, labels.__getitem__, report, file)
    check_symmetric(cells, relation_of_token, labels.__getitem__, file)
    told = {
        (min(pair), max(pair)): relation_of_token(at.word) or UNKNOWN for pair, at in cells.items()
    }
    untold = [(i, j) for j in range(len(labels)) for i in range(min(j, gpus)) if (i, j) not in told]
    if untold:
        i, j = untold[0]
        report.append(
            f"{len(untold)} pairs have empty cells, first {labels[i]} - {labels[j]}: nothing is"
            " concluded from them"
        )
    return told


def _affinities(
    table: Table, gpus: tuple[str, ...], file: FileText, report: list[str]
) -> tuple[tuple[str | None, ...], tuple[int | None, ...]]:
    """CPU list and NUMA node of each GPU."""
    rows = {row.label: row for row in table.rows}
    told = {gpu: dict(zip(table.extras, rows[gpu].rest, strict=True)) for gpu in gpus}
    cpus = [cpu_affinity(told[g].get("cpu", ""), rows[g], file) for g in gpus]
    own = [int(id) for g in gpus if re.fullmatch(_NODE, id := told[g].get("gpu", ""))]
    nodes = [_numa_affinity(told[g], min(own, default=None), rows[g], file) for g in gpus]
    if table.extras and not all(told[gpu].get(kind) for gpu in gpus for kind in table.extras):
        report.append("affinity cells are empty or missing: CPU affinity is not fully known")
    if "numa" in table.extras and all(n is None for n in nodes):
        report.append("NUMA affinity is N/A: memory nodes are not known")
    return tuple(cpus), tuple(nodes)


def _numa_affinity(
    told: Mapping[str, str], own: int | None, row: Row, file: FileText
) -> int | None:
    """The memory node near a GPU; None where none is told, or several are near.

    Grace's GPUs have memory nodes of their own, which are listed too and numbered after those of
    processors: "0,3-9" beside the GPU's own NUMA id 2. `own` is the lowest such id of all GPUs.
    """
    cell = told.get("numa", "")
    if cell in ("", "N/A"):
        return None
    with file.at(row.line, f"the NUMA affinity of {row.label} is damaged: "):
        near = parse_cpu_list(cell)
    if len(near) > 1:
        run = parse_cpu_list(format_cpu_list(near).rpartition(",")[2])
        first = run[0] if len(run) in _OWN_NODES else 0
        near = tuple(node for node in near if node < (first if own is None else own))
    return near[0] if len(near) == 1 else None


def _refuse_without_matrix(lines: list[Line], file: FileText) -> NoReturn:
    for line in lines:
        if _FAILED.search(line.text):
            raise file.refusal(
                f"nvidia-smi failed: {line.text.strip()[:160]}",
                line.number,
                hint="run `nvidia-smi topo -m` on a node whose driver works, and save that",
            )
    raise file.refusal(
        "no matrix of nvidia-smi topo -m found",
        hint="the header line must name GPU0, GPU1, ...; " + file.hint,
    )


def _nic_names(lines: list[Line], nics: tuple[str, ...], report: list[str]) -> tuple[str, ...]:
    """Driver names from the NIC legend; a label that is a driver name itself stands for itself."""
    legend = {
        match.group(1): match.group(2)
        for line in lines
        if (match := _NIC_LEGEND.fullmatch(line.text))
    }
    numbered = [nic for nic in nics if re.fullmatch(r"NIC\d+", nic, re.ASCII)]
    nameless = [nic for nic in numbered if nic not in legend]
    if nameless:
        report.append(
            f"no NIC legend for {', '.join(nameless)}: driver names are not known, and no rank is"
            " given such a NIC"
        )
    return tuple(legend.get(nic, "" if nic in numbered else nic) for nic in nics)


def _report_cut(text: str, lines: list[Line], table: Table, report: list[str]) -> None:
    if not text.endswith(("\n", "\r")) and not any(x.text.strip() for x in lines[table.end :]):
        report.append("the file ends in the last row without a newline: its end may be cut")


# ---- peer access


def parse_p2p(file: FileText) -> Topology:
    """Which pairs have peer access."""
    lines = clean_lines(file.text)
    table = find_table(lines, _P2P, file)
    if table is None:
        raise file.refusal("no matrix of nvidia-smi topo -p2p found")
    strange = [c for c in table.columns if not re.fullmatch(r"GPU\d{1,6}", c, re.ASCII)]
    if strange:
        raise file.refusal(f"{strange[0]} is no GPU: the matrix is damaged", table.line)
    report: list[str] = []
    command = next((m for x in lines if (m := _P2P_COMMAND.search(x.text))), None)
    capability = command[1] if command else ""
    access = _access(_states(table, file, report), table.columns, capability, report)
    return told_machine(
        origin="nvidia-smi topo -p2p text",
        devices=tuple(
            Device(id=label, index=int(label[3:]), vendor=Vendor.NVIDIA) for label in table.columns
        ),
        peer_access=access,
        tells={FactKind.PEER_ACCESS},
        report=report,
    )


def _states(table: Table, file: FileText, report: list[str]) -> dict[tuple[int, int], str]:
    """The state of each ordered pair; words that a newer driver may have learnt are left out."""
    found = words_of(table, table.columns)
    name = table.columns.__getitem__
    unknown = unknown_pairs(found, _P2P.is_cell, name, report, file)
    return {pair: at.word for pair, at in found.items() if pair not in unknown}


def _access(
    found: dict[tuple[int, int], str],
    columns: Sequence[str],
    capability: str,
    report: list[str],
) -> dict[tuple[int, int], bool]:
    """Peer access of each ordered pair, as far as the states decide it.

    States of reading or writing decide. A pair that NVLink, PCIe or atomics cannot serve may have
    peer access in another way.
    """
    decides = not capability or set(capability) & {"r", "w"}
    if not capability:
        report.append("which capability was asked for (r, w, n, a, p) is not stated: r assumed")
    elif not decides:
        report.append(
            f"this is about {_CAPABILITIES[capability[0]]} only: where it says no, peer access may"
            " still be possible another way"
        )
    for state, count in sorted(Counter(found.values()).items()):
        if state != "OK":
            report.append(f"peer access is {MEANINGS[state]} ({state}) for {count} ordered pairs")
    torn = [
        (i, j) for (i, j), state in found.items() if i < j and found.get((j, i), state) != state
    ]
    if torn:
        i, j = torn[0]
        report.append(
            f"the matrix is asymmetric for {len(torn)} pairs: {columns[i]} ->"
            f" {columns[j]} is {found[i, j]}, back it is {found[j, i]}"
        )
    return {
        pair: state == "OK"
        for pair, state in found.items()
        if state == "OK" or (decides and state != "U")
    }
