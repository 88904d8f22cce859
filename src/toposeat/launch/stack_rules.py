"""What a stack will do with device messages, from its variables and its known defaults."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from toposeat.launch import stack_settings as names
from toposeat.model.protocol import (
    Basis,
    ProtocolRule,
    StackKind,
    Statement,
    rule_of,
    rule_of_pieces,
)
from toposeat.model.route import CopyProtocol

_MPICH_THRESHOLD_BYTES = 1 << 20
_CRAY_THRESHOLD_BYTES = 1024
_OFF = ("0", "n", "no", "off", "false")
_MOST_BYTES = 2**31 - 1
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20}
NVLINK_GPU = "a GPU with NVLink"  # where its product is not told
# Generations that UCX has a bandwidth for, by product name; it takes others for slow.
_FAST_IN_UCX = (
    *("P100", "V100", "A100", "A800", "A30", "H100", "H800", "H20", "GH200"),
    *("B100", "B200", "B300", NVLINK_GPU),
)
_UCX_DIRECT_BYTES = 11293  # as UCX 1.22 printed for V100 and A100 (on stand-ins of them)
# As UCX 1.22 printed for K80, by ranks of the node: it divides the bandwidth among them, and sends
# through host memory from this size on.
_UCX_STAGED_BYTES = ((2, 766400), (4, 1322), (8, 327))
UCX_PIECE_BYTES = 512 << 10  # UCX_RNDV_FRAG_SIZE=host:512K, what `ucx_info -cf` shows of 1.22


def expected_rule(
    kind: StackKind, variables: Mapping[str, str], defaults: Mapping[str, str]
) -> tuple[ProtocolRule, tuple[Statement, ...]]:
    """The rule that a stack is expected to follow, and what that rests on: last what decides it.

    Args:
        kind: the stack.
        variables: the user's.
        defaults: what the installation says of variables that are not set.
    """
    if kind is StackKind.OPENMPI_UCX:
        return _ucx(variables)
    if kind is StackKind.OPENMPI_OB1:
        return _ob1(variables)
    if kind is StackKind.MPICH:
        return _mpich(variables, defaults)
    if kind is StackKind.INTEL_MPI:
        return _intel(variables)
    return _cray(variables)


def piece_bytes(kind: StackKind, variables: Mapping[str, str]) -> int:
    """Size of the pieces in which a stack stages a message; 0 if it is not known."""
    if kind is not StackKind.OPENMPI_UCX:
        return 0
    given = re.search(
        r"\bhost:([0-9]{1,9})([km]?)b?(?:,|$)", variables.get(names.UCX_PIECE, "").lower()
    )
    return int(given[1]) * _UNITS[given[2]] if given else UCX_PIECE_BYTES


def rule_for_devices(
    variables: Mapping[str, str], device_names: Iterable[str], ranks: int
) -> tuple[ProtocolRule, Statement] | None:
    """What UCX chooses by itself for these GPUs; None where it is told.

    Args:
        variables: the user's.
        device_names: products.
        ranks: on the node.
    """
    if variables.get(names.UCX_SCHEME, "auto") != "auto":
        return None
    if not names.has_cuda_ipc(variables.get(names.UCX_TLS, "all")):
        return None
    told = {name for name in device_names if name}
    found = {name for name in told if any(each in name for each in _FAST_IN_UCX)}
    if not told:
        return None
    if not found:
        staged = next((size for most, size in _UCX_STAGED_BYTES if ranks <= most), 0)
        if not staged:
            return None
        said = Statement(
            f"UCX takes these GPUs for slow: with {ranks} ranks on a node it sends through host"
            f" memory from about {staged} bytes on",
            Basis.ASSUMED,
            "as UCX 1.22 says by UCX_PROTO_INFO",
        )
        pieces = ((0, CopyProtocol.PUT), (staged, CopyProtocol.STAGED))
        return ProtocolRule(pieces=pieces), said
    said = Statement(
        f"UCX knows the bandwidth of {', '.join(sorted(found))}: the sender writes from about"
        f" {_UCX_DIRECT_BYTES} bytes on",
        Basis.ASSUMED,
        "as UCX 1.22 says by UCX_PROTO_INFO",
    )
    return rule_of(CopyProtocol.PUT, threshold_bytes=_UCX_DIRECT_BYTES), said


def _ucx(variables: Mapping[str, str]) -> tuple[ProtocolRule, tuple[Statement, ...]]:
    if not names.has_cuda_ipc(variables.get(names.UCX_TLS, "all")):
        words = f"{names.UCX_TLS}={variables[names.UCX_TLS]}: no cuda_ipc, so through host memory"
        return rule_of(CopyProtocol.STAGED), (Statement(words, Basis.KNOWN, names.UCX_SOURCE),)
    scheme = variables.get(names.UCX_SCHEME, "auto")
    fallback = Statement(
        "a pair that cannot open the peer's memory goes through host memory",
        Basis.KNOWN,
        "UCX src/uct/cuda/cuda_ipc/cuda_ipc_md.c",
    )
    if scheme == "put_zcopy":
        said = Statement("rendezvous by put: the sender writes", Basis.KNOWN, names.UCX_SOURCE)
        return rule_of(CopyProtocol.PUT), (fallback, said)
    if scheme == "get_zcopy":
        if variables.get(names.UCX_GET, "auto") == "on":
            said = Statement("rendezvous by get: the receiver reads", Basis.KNOWN, names.UCX_SOURCE)
            return rule_of(CopyProtocol.GET), (fallback, said)
        said = Statement(
            f"{names.UCX_GET} is not on: get needs NVLink, else UCX copies eagerly, through host"
            " memory",
            Basis.KNOWN,
            "UCX src/uct/cuda/cuda_ipc/cuda_ipc_iface.c",
        )
        return rule_of(CopyProtocol.STAGED), (said,)
    said = Statement(
        "UCX chooses by one bandwidth per GPU generation, not by pair; through host memory where"
        " it does not know the generation",
        Basis.ASSUMED,
        "UCX src/uct/cuda/cuda_ipc/cuda_ipc_iface.c; a run with UCX_PROTO_INFO=y tells",
    )
    return rule_of(CopyProtocol.STAGED), (fallback, said)


def _ob1(variables: Mapping[str, str]) -> tuple[ProtocolRule, tuple[Statement, ...]]:
    if variables.get(names.OMPI_IPC, "1").lower() in _OFF:
        said = Statement("CUDA IPC is switched off", Basis.KNOWN, names.OMPI_SOURCE)
        return rule_of(CopyProtocol.STAGED), (said,)
    said = Statement(
        "smcuda lets the receiver read; pairs without peer access go through host memory",
        Basis.KNOWN,
        "Open MPI opal/mca/btl/smcuda/README.md",
    )
    return rule_of(CopyProtocol.GET), (said,)


def _mpich(
    variables: Mapping[str, str], defaults: Mapping[str, str]
) -> tuple[ProtocolRule, tuple[Statement, ...]]:
    both = {**defaults, **variables}
    direction = both.get(names.MPICH_DIRECTION, "read")
    writes = direction in ("write", "auto")
    direct = CopyProtocol.PUT if writes else CopyProtocol.GET
    threshold = _bytes(both.get(names.MPICH_THRESHOLD), _MPICH_THRESHOLD_BYTES)
    basis = Basis.KNOWN if names.MPICH_THRESHOLD in both else Basis.ASSUMED
    said = [
        Statement(
            f"GPU IPC ({'write' if writes else 'read'}) from {threshold} bytes on",
            basis,
            names.MPICH_SOURCE,
        )
    ]
    if both.get(names.MPICH_REPEAT, "1").lower() not in _OFF and threshold < _MOST_BYTES:
        said.append(
            Statement(
                "buffers are sent again and again, so IPC counts for smaller messages too"
                f" ({names.MPICH_REPEAT})",
                Basis.ASSUMED,
                names.MPICH_SOURCE,
            )
        )
        threshold = 0
    if threshold >= _MOST_BYTES:
        return rule_of(CopyProtocol.STAGED), tuple(said)
    return rule_of(direct, threshold_bytes=threshold), tuple(said)


def _cray(variables: Mapping[str, str]) -> tuple[ProtocolRule, tuple[Statement, ...]]:
    said = []
    if variables.get(names.CRAY_GPU, "0") == "0":
        said.append(
            Statement(
                f"{names.CRAY_GPU} is not 1: device buffers are refused or crash",
                Basis.KNOWN,
                names.CRAY_SOURCE,
            )
        )
    if variables.get(names.CRAY_IPC, "1").lower() in _OFF:
        said.append(Statement("GPU IPC is switched off", Basis.KNOWN, names.CRAY_SOURCE))
        return rule_of(CopyProtocol.STAGED), tuple(said)
    threshold = _bytes(variables.get(names.CRAY_THRESHOLD), _CRAY_THRESHOLD_BYTES)
    basis = Basis.KNOWN if names.CRAY_THRESHOLD in variables else Basis.ASSUMED
    said.append(Statement("the receiver reads", Basis.ASSUMED))
    said.append(Statement(f"GPU IPC from {threshold} bytes on", basis, names.CRAY_SOURCE))
    return rule_of(CopyProtocol.GET, threshold_bytes=threshold), tuple(said)


def _intel(variables: Mapping[str, str]) -> tuple[ProtocolRule, tuple[Statement, ...]]:
    said = []
    if variables.get(names.INTEL_GPU, "0") == "0":
        words = f"{names.INTEL_GPU} is not 1: device buffers are not handled and crash"
        said.append(Statement(words, Basis.KNOWN, names.INTEL_SOURCE))
    if variables.get(names.INTEL_IPC, "1").lower() in _OFF:
        said.append(Statement("GPU IPC is switched off", Basis.KNOWN, names.INTEL_SOURCE))
        return rule_of(CopyProtocol.STAGED), tuple(said)
    basis = Basis.KNOWN if names.INTEL_IPC in variables else Basis.ASSUMED
    said.append(Statement("the receiver reads", Basis.ASSUMED))
    said.append(Statement("GPU IPC within a node", basis, names.INTEL_SOURCE))
    return rule_of(CopyProtocol.GET), tuple(said)


def _bytes(text: str | None, otherwise: int) -> int:
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 10:
        return otherwise
    return int(text)


_LINE = re.compile(r"\[([^\[\]\s]+?):(\d+)\s*:\d+\]\s+\|(.*)\|\s*$")
_TITLE = re.compile(r"^\s*tagged message by ucp_tag_send\*\S* from (?!host)(\w+)\S*\s*$")
_RANGE = re.compile(r"^\s*(\d+)([KMG]?)(?:\.\.(?:\d+[KMG]?|inf))?\s*$")
_UNIT = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_MOST_LINES = 200_000


def device_rule(output: str) -> ProtocolRule | None:
    """The rule that most processes print for messages from device memory within a node.

    `UCX_PROTO_INFO=y` prints tables of which each line begins with `[time] [host:pid:thread]`:

        | tagged message by ucp_tag_send*(multi) from cuda/GPU0      |
        |    Range     |      Description      |     Config          |
        |  38974..512K | (?) rendezvous ...    | cuda_ipc/cuda       |

    Whatever is not a copy through `cuda_ipc` goes through host memory.

    Args:
        output: everything that the ranks printed.

    Returns:
        The rule; None if no process printed a table for device memory.
    """
    rules: Counter[ProtocolRule] = Counter()
    pieces: defaultdict[str, list[tuple[int, CopyProtocol]]] = defaultdict(list)
    within: dict[str, bool] = {}
    reading: dict[str, bool] = {}

    def close(process: str) -> None:
        if pieces[process]:
            rules[rule_of_pieces(pieces.pop(process))] += 1

    for line in output.splitlines()[:_MOST_LINES]:
        match = _LINE.search(line)
        if match is None:
            continue
        process, body = f"{match[1]}:{match[2]}", match[3]
        cells = body.split("|")
        if len(cells) == 1:
            close(process)
            if " cfg#" in body:
                within[process] = "intra-node" in body
            reading[process] = within.get(process, False) and _TITLE.match(body) is not None
        elif reading.get(process) and len(cells) == 3:
            place = _RANGE.match(cells[0])
            if place is not None:
                first = int(place[1]) * _UNIT[place[2]]
                pieces[process].append((first, _protocol(cells[1], cells[2])))
    for process in list(pieces):
        close(process)
    return max(rules, key=lambda rule: (rules[rule], rule.pieces)) if rules else None


def _protocol(description: str, config: str) -> CopyProtocol:
    if "cuda_ipc" not in config or "eager" in description or "frag host" in description:
        return CopyProtocol.STAGED
    return CopyProtocol.GET if "read from remote" in description else CopyProtocol.PUT
