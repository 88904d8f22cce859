"""Reader of `nvidia-smi topo -m` text, of every header generation.

The rule: what the text says is taken exactly, what it lacks is reported, what is damaged is
refused. NVIDIA prints a full symmetric matrix with one row per column, so anything else is damage;
only hand-made markdown tables may leave the NIC rows out.
"""

from __future__ import annotations

import re
from pathlib import Path

from toposeat.errors import InputError
from toposeat.model.cpu_list import parse_cpu_list
from toposeat.model.topology import Vendor, canonical_pci
from toposeat.topology.facts import MachineFacts, facts_of_relations
from toposeat.topology.graph.relation import (
    KNOWN_TOKENS,
    Relation,
    RelationMatrix,
    relation_of_token,
)
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.word_table import (
    Line,
    Table,
    Vocabulary,
    clean_lines,
    find_table,
    header_after,
)

P2P_WORDS = ("OK", "NS", "CNS", "GNS", "TNS", "DR", "U")
RELATIONS = Vocabulary(
    command="nvidia-smi topo -m",
    is_cell=lambda word: relation_of_token(word) is not None,
    known=KNOWN_TOKENS,
    foreign=dict.fromkeys(P2P_WORDS, "nvidia-smi topo -p2p"),
)
_SAVE = RELATIONS.save
_FAILED = re.compile(
    r"NVIDIA-SMI has failed|Failed to initialize NVML|No devices were found|command not found"
    r"|couldn't communicate with the NVIDIA driver|Unable to determine the device handle",
    re.IGNORECASE,
)
_NIC_LEGEND = re.compile(r"\s*(NIC\d+)\s*:\s*(\S+)\s*", re.ASCII)
_LISTED = re.compile(r"\s*GPU (\d+): (.{1,120}?) \(UUID: (GPU-[0-9a-fA-F-]{8,})\)")
_TABLED = re.compile(
    r"\|\s+(\d+)\s+(\S.{0,60}?)\s+(?:On|Off|N/A)\s*\|\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d)"
)


def looks_like(file: FileText) -> bool:
    """Whether this is, or was meant to be, output of nvidia-smi."""
    return re.search(r"\bGPU0\b", file.start) is not None or _FAILED.search(file.start) is not None


def parse(file: FileText) -> MachineFacts:
    """Read the text of `nvidia-smi topo -m`; see `parse_topo_matrix`."""
    matrix = parse_topo_matrix(file.text, path=file.path)
    return facts_of_relations(matrix, origin="nvidia-smi topo -m text", vendor=Vendor.NVIDIA)


def parse_topo_matrix(text: str, *, path: str | Path | None = None) -> RelationMatrix:
    """Read the text of `nvidia-smi topo -m`, with whatever surrounds it.

    Product names, UUIDs and PCI bus ids are picked up when `nvidia-smi` or `nvidia-smi -L` was
    saved in the same file.

    Raises:
        InputError: with file and line: no matrix, truncated, rows missing, unknown words,
        asymmetric.
    """
    if not text.strip():
        raise InputError("the file is empty", path=path, hint=_SAVE)
    lines = clean_lines(text)
    table = find_table(lines, RELATIONS, path)
    if table is None:
        _refuse_without_matrix(lines, path)
        raise AssertionError("unreachable")
    report: list[str] = []
    _check_rows(table, path, report)
    relations = _relations(table, path)
    gpus = tuple(c for c in table.columns if re.fullmatch(r"GPU\d+", c, re.ASCII))
    nics = tuple(c for c in table.columns if c not in gpus)
    order = {label: i for i, label in enumerate((*gpus, *nics))}
    cpus, nodes = _affinities(table, gpus, path, report)
    names, uuids, pci = _identities(lines, gpus)
    _report_surroundings(text, lines, table, report)
    return RelationMatrix(
        gpus=gpus,
        nics=nics,
        relations={
            (min(order[a], order[b]), max(order[a], order[b])): relation
            for (a, b), relation in relations.items()
        },
        gpu_names=names,
        gpu_uuids=uuids,
        gpu_pci=pci,
        nic_names=_nic_names(lines[table.end :], nics, report),
        cpu_affinity=cpus,
        numa_affinity=nodes,
        old_words=any("SOC" in row.cells for row in table.rows),
        report=tuple(report),
    )


def _refuse_without_matrix(lines: list[Line], path: str | Path | None) -> None:
    for line in lines:
        if _FAILED.search(line.text):
            raise InputError(
                f"nvidia-smi failed: {line.text.strip()[:160]}",
                path=path,
                line=line.number,
                hint="run `nvidia-smi topo -m` on a node whose driver works, and save that",
            )
    raise InputError(
        "no matrix of nvidia-smi topo -m found",
        path=path,
        hint="the header line must name GPU0, GPU1, ...; " + _SAVE,
    )


def _check_rows(table: Table, path: str | Path | None, report: list[str]) -> None:
    labels = [row.label for row in table.rows]
    for row in table.rows:
        if labels.count(row.label) > 1:
            raise InputError(f"row {row.label} appears twice", path=path, line=row.line, hint=_SAVE)
    missing = [c for c in table.columns if c not in labels]
    if not missing:
        return
    nic_rows = [c for c in table.columns if not re.fullmatch(r"GPU\d+", c, re.ASCII)]
    if table.markdown and missing == nic_rows:
        report.append("the table has no rows for NICs: relations between NICs are not known")
        return
    later = table.columns[table.columns.index(missing[0]) :]
    line = next((r.line for r in table.rows if r.label in later), table.rows[-1].line + 1)
    what = (
        f"the row of {missing[0]} is"
        if len(missing) == 1
        else (f"the rows of {', '.join(missing)} are")
    )
    raise InputError(f"{what} missing: the matrix is truncated", path=path, line=line, hint=_SAVE)


def _relations(table: Table, path: str | Path | None) -> dict[tuple[str, str], Relation]:
    """Relations by (earlier column, later column), after comparing both halves of the matrix."""
    found: dict[tuple[str, str], Relation] = {}
    for row in table.rows:
        for column, cell in zip(table.columns, row.cells, strict=True):
            relation = relation_of_token(cell)
            if relation is None:
                continue
            mirror = found.get((column, row.label))
            if mirror is not None and mirror != relation:
                raise InputError(
                    f"the matrix is asymmetric: {column} -> {row.label} is {mirror.token}, but"
                    f" {row.label} -> {column} is {cell}",
                    path=path,
                    line=row.line,
                    hint="the file was edited or damaged; " + _SAVE,
                )
            if mirror is None:
                found[row.label, column] = relation
    return found


def _affinities(
    table: Table, gpus: tuple[str, ...], path: str | Path | None, report: list[str]
) -> tuple[tuple[str | None, ...], tuple[int | None, ...]]:
    """CPU list and NUMA node of each GPU."""
    rows = {row.label: row for row in table.rows}
    counts = {len(rows[gpu].affinities) for gpu in gpus}
    for row in table.rows:
        if row.label in gpus and len(row.affinities) < max(counts):
            raise InputError(
                f"row {row.label} ends before its affinities: the matrix is truncated",
                path=path,
                line=row.line,
                hint=_SAVE,
            )
        if row.label not in gpus and row.affinities:
            raise InputError(
                f"row {row.label} has more cells than the header has columns",
                path=path,
                line=row.line,
                hint=_SAVE,
            )
    if max(counts) < len(table.affinities):
        report.append("the affinity cells are empty or incomplete: CPU affinity is not fully known")
    cpus: list[str | None] = []
    nodes: list[int | None] = []
    for gpu in gpus:
        cells = dict(zip(table.affinities, rows[gpu].affinities, strict=False))
        cpus.append(_cpu_affinity(cells.get("cpu", "N/A"), gpu, rows[gpu].line, path))
        nodes.append(_numa_affinity(cells.get("numa", "N/A"), gpu, rows[gpu].line, path))
    if "numa" in table.affinities and all(n is None for n in nodes):
        report.append("NUMA affinity is N/A: memory nodes are not known")
    return tuple(cpus), tuple(nodes)


def _cpu_affinity(cell: str, gpu: str, line: int, path: str | Path | None) -> str | None:
    if cell == "N/A":
        return None
    try:
        parse_cpu_list(cell)
    except ValueError:
        raise InputError(
            f"the CPU affinity of {gpu} is damaged: {cell!r}", path=path, line=line, hint=_SAVE
        ) from None
    return cell


def _numa_affinity(cell: str, gpu: str, line: int, path: str | Path | None) -> int | None:
    if re.fullmatch(r"\d{1,4}", cell, re.ASCII):
        return int(cell)
    if cell == "N/A" or re.fullmatch(r"\d{1,4}([,-]\d{1,4})+", cell, re.ASCII):
        return None  # several nodes: none of them is *the* near one
    raise InputError(
        f"the NUMA affinity of {gpu} is damaged: {cell!r}", path=path, line=line, hint=_SAVE
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
        report.append(f"no NIC legend for {', '.join(nameless)}: driver names are not known")
    return tuple(legend.get(nic, "" if nic in numbered else nic) for nic in nics)


def _identities(
    lines: list[Line], gpus: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str | None, ...], tuple[str | None, ...]]:
    """Names, UUIDs, PCI bus ids where other nvidia-smi output in the file gives them."""
    names: dict[str, str] = {}
    uuids: dict[str, str] = {}
    pci: dict[str, str] = {}
    for line in lines:
        if match := _LISTED.match(line.text):
            names[f"GPU{int(match.group(1))}"] = match.group(2)
            uuids[f"GPU{int(match.group(1))}"] = match.group(3)
        elif match := _TABLED.match(line.text):
            names.setdefault(f"GPU{int(match.group(1))}", match.group(2))
            pci[f"GPU{int(match.group(1))}"] = canonical_pci(match.group(3))
    return (
        tuple(names.get(gpu, "") for gpu in gpus),
        tuple(uuids.get(gpu) for gpu in gpus),
        tuple(pci.get(gpu) for gpu in gpus),
    )


def _report_surroundings(text: str, lines: list[Line], table: Table, report: list[str]) -> None:
    second = header_after(lines, table.end, RELATIONS)
    if second is not None:
        report.append(f"another matrix at line {second} was not read")
    if not text.endswith(("\n", "\r")) and not any(x.text.strip() for x in lines[table.end :]):
        report.append("the file ends in the last row without a newline: its end may be cut")
