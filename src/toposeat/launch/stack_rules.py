"""What a stack will do with device messages by its variables and defaults, and what may be set.

Settings are few on purpose: only variables whose effect is one of the protocols that `measure`
measures. Names and meanings are those of the named sources; `docs/how-to/choose-a-protocol.md`
shows the table.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from toposeat.model.protocol import (
    Basis,
    ProtocolRule,
    Setting,
    StackKind,
    Statement,
    rule_of,
    rule_of_pieces,
)
from toposeat.model.route import CopyProtocol

UCX_TLS, UCX_SCHEME = "UCX_TLS", "UCX_RNDV_SCHEME"
UCX_GET = "UCX_CUDA_IPC_ENABLE_GET_ZCOPY"
OMPI_IPC = "OMPI_MCA_btl_smcuda_use_cuda_ipc"
MPICH_THRESHOLD = "MPIR_CVAR_CH4_IPC_GPU_P2P_THRESHOLD"
MPICH_DIRECTION = "MPIR_CVAR_CH4_IPC_GPU_READ_WRITE_PROTOCOL"
MPICH_REPEAT = "MPIR_CVAR_CH4_IPC_MAP_REPEAT_ADDR"
MPICH_GPU = "MPIR_CVAR_ENABLE_GPU"
CRAY_IPC, CRAY_THRESHOLD = "MPICH_GPU_IPC_ENABLED", "MPICH_GPU_IPC_THRESHOLD"
CRAY_GPU = "MPICH_GPU_SUPPORT_ENABLED"
INTEL_GPU, INTEL_IPC = "I_MPI_OFFLOAD", "I_MPI_OFFLOAD_IPC"
UCX_PIECE = "UCX_RNDV_FRAG_SIZE"

# What steers each stack: these are looked for in the environment and on the launch line.
STEERING: Mapping[StackKind, tuple[str, ...]] = {
    StackKind.OPENMPI_UCX: (
        *(UCX_TLS, UCX_SCHEME, UCX_GET, "UCX_RNDV_THRESH", "UCX_CUDA_IPC_BW"),
        *("UCX_PROTO_ENABLE", "UCX_RNDV_FRAG_MEM_TYPES", "UCX_MEMTYPE_CACHE", UCX_PIECE),
    ),
    StackKind.OPENMPI_OB1: (OMPI_IPC,),
    StackKind.MPICH: (MPICH_GPU, MPICH_THRESHOLD, MPICH_DIRECTION, MPICH_REPEAT),
    StackKind.CRAY_MPICH: (CRAY_GPU, CRAY_IPC, CRAY_THRESHOLD),
    StackKind.INTEL_MPI: (INTEL_GPU, INTEL_IPC),
}
UCX_SOURCE = "ucx_info -cf"
OMPI_SOURCE = "ompi_info --param btl smcuda --level 9"
MPICH_SOURCE = "mpivars; MPICH src/mpid/ch4/shm/ipc/gpu/gpu_post.c"
CRAY_SOURCE = "HPE Cray MPI, man page intro_mpi"
INTEL_SOURCE = "Intel MPI Library, Developer Reference for Linux, GPU Buffers Support"


_READS = "receiver reads", CopyProtocol.GET
_WRITES = "sender writes", CopyProtocol.PUT
_HOST = "through the host", CopyProtocol.STAGED
_DIRECT = "direct", CopyProtocol.GET  # of Cray and Intel, who do not say which side copies
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


def settings_of(kind: StackKind, variables: Mapping[str, str]) -> tuple[Setting, ...]:
    """What could be set for a stack; UCX's take back what the user's own `variables` say."""
    if kind is not StackKind.OPENMPI_UCX:
        return _SETTINGS[kind]
    tls = variables.get(UCX_TLS, "all")
    direct = {} if has_cuda_ipc(tls) else {UCX_TLS: with_cuda_ipc(tls)}
    return (
        _setting(
            *(UCX_SOURCE, _READS, {UCX_SCHEME: "get_zcopy", UCX_GET: "on", **direct}),
            caution=f"without {UCX_GET} a node without NVLink falls back to eager copies",
        ),
        _setting(UCX_SOURCE, _WRITES, {UCX_SCHEME: "put_zcopy", **direct}),
        _setting(
            *(UCX_SOURCE, _HOST, {UCX_SCHEME: "auto", UCX_TLS: without_cuda_ipc(tls)}),
            caution=f"{UCX_SCHEME} must be auto: put_zcopy without cuda_ipc means eager copies",
        ),
    )


def _setting(
    source: str,
    what: tuple[str, CopyProtocol],
    variables: Mapping[str, str],
    *,
    caution: str = "",
) -> Setting:
    name, protocol = what
    rule = rule_of(protocol)
    return Setting(name=name, variables=variables, rule=rule, source=source, caution=caution)


_NEVER = str(2**31 - 1)  # bytes: no message is that large, and the variable is an int
_NOT_MASKED = "the sender must see the receiver's GPU: not with --visibility mask"
_BLIND = "MPICH does not ask whether peers can be accessed: a pair that cannot fails"
_SETTINGS: Mapping[StackKind, tuple[Setting, ...]] = {
    StackKind.OPENMPI_OB1: (
        _setting(
            *(OMPI_SOURCE, _READS, {OMPI_IPC: "1"}),
            caution="smcuda compares device numbers: not with --visibility mask or rotate",
        ),
        _setting(OMPI_SOURCE, _HOST, {OMPI_IPC: "0"}),
    ),
    StackKind.MPICH: (
        _setting(
            *(MPICH_SOURCE, _READS, {MPICH_THRESHOLD: "1", MPICH_DIRECTION: "read"}),
            caution=_BLIND,
        ),
        _setting(
            *(MPICH_SOURCE, _WRITES, {MPICH_THRESHOLD: "1", MPICH_DIRECTION: "write"}),
            caution=f"{_NOT_MASKED}; {_BLIND}",
        ),
        _setting(MPICH_SOURCE, _HOST, {MPICH_THRESHOLD: _NEVER, MPICH_REPEAT: "0"}),
    ),
    StackKind.INTEL_MPI: (
        _setting(INTEL_SOURCE, _DIRECT, {INTEL_GPU: "1", INTEL_IPC: "1"}),
        _setting(INTEL_SOURCE, _HOST, {INTEL_GPU: "1", INTEL_IPC: "0"}),
    ),
    StackKind.CRAY_MPICH: (
        _setting(CRAY_SOURCE, _DIRECT, {CRAY_IPC: "1", CRAY_THRESHOLD: "1"}),
        _setting(CRAY_SOURCE, _HOST, {CRAY_IPC: "0"}),
    ),
}


def _names(tls: str) -> list[str]:
    return [each.strip() for each in tls.lstrip("^").split(",") if each.strip()]


def has_cuda_ipc(tls: str) -> bool:
    """Whether UCX_TLS leaves the transport `cuda_ipc` in."""
    names = _names(tls)
    named = bool({"cuda_ipc", "cuda"} & set(names))
    return not named if tls.startswith("^") else named or "all" in names or not names


def with_cuda_ipc(tls: str) -> str:
    """UCX_TLS as it is, with `cuda_ipc` in it."""
    if has_cuda_ipc(tls):
        return tls
    names = _names(tls)
    if tls.startswith("^"):
        left = [each for each in names if each not in ("cuda_ipc", "cuda")]
        return f"^{','.join(left)}" if left else "all"
    return ",".join([*names, "cuda_ipc"])


def without_cuda_ipc(tls: str) -> str:
    """UCX_TLS as it is, without `cuda_ipc`; `cuda` stands for `cuda_copy` and `cuda_ipc`."""
    if not has_cuda_ipc(tls):
        return tls
    names = _names(tls)
    if tls.startswith("^"):
        return f"^{','.join([*names, 'cuda_ipc'])}"
    if "all" in names or not names:
        return "^cuda_ipc"
    left = ["cuda_copy" if each == "cuda" else each for each in names if each != "cuda_ipc"]
    return ",".join(dict.fromkeys(left)) or "^cuda_ipc"


def expected_rule(
    kind: StackKind, variables: Mapping[str, str], defaults: Mapping[str, str]
) -> tuple[ProtocolRule, tuple[Statement, ...]]:
    """The rule that a stack is expected to follow, and what that rests on: last what decides it.

    `defaults` is what the installation says of variables that the user has not set.
    """
    if kind is StackKind.OPENMPI_UCX:
        return _ucx(variables)
    if kind is StackKind.OPENMPI_OB1:
        return _ob1(variables)
    if kind is StackKind.MPICH:
        return _mpich({**defaults, **variables})
    return _by_switches(kind, variables)


def piece_bytes(kind: StackKind, variables: Mapping[str, str]) -> int:
    """Size of the pieces in which a stack stages a message; 0 if it is not known."""
    if kind is not StackKind.OPENMPI_UCX:
        return 0
    given = re.search(r"\bhost:([0-9]{1,9})([km]?)b?(?:,|$)", variables.get(UCX_PIECE, "").lower())
    return int(given[1]) * _UNITS[given[2]] if given else UCX_PIECE_BYTES


def rule_for_devices(
    variables: Mapping[str, str], device_names: Iterable[str], ranks: int
) -> tuple[ProtocolRule, Statement] | None:
    """What UCX chooses by itself for these products and ranks of a node; None where it is told."""
    if variables.get(UCX_SCHEME, "auto") != "auto":
        return None
    if not has_cuda_ipc(variables.get(UCX_TLS, "all")):
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
    if not has_cuda_ipc(variables.get(UCX_TLS, "all")):
        words = f"{UCX_TLS}={variables[UCX_TLS]}: no cuda_ipc, so through host memory"
        return rule_of(CopyProtocol.STAGED), (Statement(words, Basis.KNOWN, UCX_SOURCE),)
    scheme = variables.get(UCX_SCHEME, "auto")
    fallback = Statement(
        "a pair that cannot open the peer's memory goes through host memory",
        Basis.KNOWN,
        "UCX src/uct/cuda/cuda_ipc/cuda_ipc_md.c",
    )
    if scheme == "put_zcopy":
        said = Statement("rendezvous by put: the sender writes", Basis.KNOWN, UCX_SOURCE)
        return rule_of(CopyProtocol.PUT), (fallback, said)
    if scheme == "get_zcopy":
        if variables.get(UCX_GET, "auto") == "on":
            said = Statement("rendezvous by get: the receiver reads", Basis.KNOWN, UCX_SOURCE)
            return rule_of(CopyProtocol.GET), (fallback, said)
        said = Statement(
            f"{UCX_GET} is not on: get needs NVLink, else UCX copies eagerly, through host memory",
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
    if variables.get(OMPI_IPC, "1").lower() in _OFF:
        said = Statement("CUDA IPC is switched off", Basis.KNOWN, OMPI_SOURCE)
        return rule_of(CopyProtocol.STAGED), (said,)
    said = Statement(
        "smcuda lets the receiver read; pairs without peer access go through host memory",
        Basis.KNOWN,
        "Open MPI opal/mca/btl/smcuda/README.md",
    )
    return rule_of(CopyProtocol.GET), (said,)


def _mpich(both: Mapping[str, str]) -> tuple[ProtocolRule, tuple[Statement, ...]]:
    direction = both.get(MPICH_DIRECTION, "read")
    writes = direction in ("write", "auto")
    direct = CopyProtocol.PUT if writes else CopyProtocol.GET
    threshold = _bytes(both.get(MPICH_THRESHOLD), _MPICH_THRESHOLD_BYTES)
    basis = Basis.KNOWN if MPICH_THRESHOLD in both else Basis.ASSUMED
    said = [
        Statement(
            f"GPU IPC ({'write' if writes else 'read'}) from {threshold} bytes on",
            basis,
            MPICH_SOURCE,
        )
    ]
    if both.get(MPICH_REPEAT, "1").lower() not in _OFF and threshold < _MOST_BYTES:
        said.append(
            Statement(
                "buffers are sent again and again, so IPC counts for smaller messages too"
                f" ({MPICH_REPEAT})",
                Basis.ASSUMED,
                MPICH_SOURCE,
            )
        )
        threshold = 0
    if threshold >= _MOST_BYTES:
        return rule_of(CopyProtocol.STAGED), tuple(said)
    return rule_of(direct, threshold_bytes=threshold), tuple(said)


def _by_switches(
    kind: StackKind, variables: Mapping[str, str]
) -> tuple[ProtocolRule, tuple[Statement, ...]]:
    """Cray's and Intel's: off unless switched on, and then direct from a size on."""
    gpu, ipc, source = CRAY_GPU, CRAY_IPC, CRAY_SOURCE
    refused, threshold = "refused or crash", CRAY_THRESHOLD
    if kind is StackKind.INTEL_MPI:
        gpu, ipc, source = INTEL_GPU, INTEL_IPC, INTEL_SOURCE
        refused, threshold = "not handled and crash", ""
    said = []
    if variables.get(gpu, "0") == "0":
        text = f"{gpu} is not 1: device buffers are {refused}"
        said.append(Statement(text, Basis.KNOWN, source))
    if variables.get(ipc, "1").lower() in _OFF:
        said.append(Statement("GPU IPC is switched off", Basis.KNOWN, source))
        return rule_of(CopyProtocol.STAGED), tuple(said)
    size = _bytes(variables.get(threshold), _CRAY_THRESHOLD_BYTES) if threshold else 0
    where = f"from {size} bytes on" if threshold else "within a node"
    basis = Basis.KNOWN if (threshold or ipc) in variables else Basis.ASSUMED
    said.append(Statement("the receiver reads", Basis.ASSUMED))
    said.append(Statement(f"GPU IPC {where}", basis, source))
    return rule_of(CopyProtocol.GET, threshold_bytes=size), tuple(said)


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
    """The rule that most processes print for messages from device memory within a node, if any.

    `UCX_PROTO_INFO=y` prints tables of which each line begins with `[time] [host:pid:thread]`:

        | tagged message by ucp_tag_send*(multi) from cuda/GPU0      |
        |    Range     |      Description      |     Config          |
        |  38974..512K | (?) rendezvous ...    | cuda_ipc/cuda       |

    Whatever is not a copy through `cuda_ipc` goes through host memory.
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
