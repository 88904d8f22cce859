"""Reader of `nvidia-smi topo -p2p`: which pairs of GPUs may reach each other's memory.

The command prints one of five capabilities (r, w, n, a, p), and the output does not say which.
Where the command itself was saved too, it decides; else reading (r) is assumed, and said so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from toposeat.model.topology import Device, FactKind, Topology, Vendor
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.nvidia_smi_topo import MATRIX
from toposeat.topology.readers.tables import Table, clean_lines, find_table
from toposeat.topology.readers.words import unknown_pairs, words_of
from toposeat.topology.told import told_machine

MEANINGS = {
    "OK": "possible",
    "NS": "not supported",
    "CNS": "chipset not supported",
    "GNS": "GPU not supported",
    "TNS": "topology not supported",
    "DR": "disabled by a driver setting",
    "U": "unknown",
}
_STATES = replace(
    MATRIX,
    is_cell=MEANINGS.__contains__,
    cells=f"a state ({', '.join(MEANINGS)})",
)
_COMMAND = re.compile(r"topo\s+(?:-p2p|--p2pstatus)\s+([rwnap]{1,2})\b")
_P2P_ROW = re.compile(
    r"[ \t|]*GPU\d+(?:[ \t|]+X)?[ \t|]+(?:OK|[CGT]?NS|DR|U)\b", re.ASCII | re.IGNORECASE
)
_CAPABILITIES = {
    "r": "reading",
    "w": "writing",
    "n": "NVLink",
    "a": "atomic operations",
    "p": "PCIe",
}


def looks_like(file: FileText) -> bool:
    """Whether a row of this matrix is among the first lines."""
    return any(_P2P_ROW.match(line) for line in file.start[:20_000].split("\n"))


def parse(file: FileText) -> Topology:
    """Read which pairs have peer access.

    Raises:
        InputError: with file and line: no matrix, truncated, words that contradict known ones.
    """
    lines = clean_lines(file.text)
    table = find_table(lines, _STATES, file)
    if table is None:
        raise file.refusal("no matrix of nvidia-smi topo -p2p found")
    strange = [c for c in table.columns if not re.fullmatch(r"GPU\d{1,6}", c, re.ASCII)]
    if strange:
        raise file.refusal(f"{strange[0]} is no GPU: the matrix is damaged", table.line)
    report: list[str] = []
    command = next((m for x in lines if (m := _COMMAND.search(x.text))), None)
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
    unknown = unknown_pairs(found, _STATES.is_cell, name, report, file)
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
