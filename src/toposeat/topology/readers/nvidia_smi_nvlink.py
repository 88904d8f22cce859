"""Reader of `nvidia-smi nvlink -s` (state of each lane) and `nvidia-smi -L` (GPUs, MIG slices).

Both print one heading a GPU; what is indented below it tells them apart:

    GPU 0: Tesla V100-SXM2-32GB (UUID: GPU-b45d9bdf-...)
         Link 0: 25.781 GB/s
         Link 1: <inactive>
    GPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-5269b708-...)
      MIG 1g.10gb     Device  0: (UUID: MIG-...)

Rates are those of one direction. `nvlink -R` (where lanes end) may stand in the same file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from toposeat.model.topology import Device, LaneState, Topology, Vendor, canonical_pci
from toposeat.topology.readers.cells import GB_PER_S
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.tables import Line, clean_lines, without_marks
from toposeat.topology.told import told_machine

_MAX_LANES = 64
_GPU = re.compile(
    r"GPU (\d{1,4}): (.{0,120}?)\s*\(UUID: (GPU-[0-9a-f-]{8,40})\)\s*", re.ASCII | re.IGNORECASE
)
_LISTED = re.compile(  # as collect_env prints it: without the UUID
    r"(?:GPU models and configuration\s*:\s*)?GPU (\d{1,4}): "
    r"((?:NVIDIA|Tesla|Quadro|GeForce|TITAN|GRID)\b[^:()]{0,100}?)()\s*",
    re.ASCII,
)
_GPU_START = re.compile(r"GPU \d{1,4}:", re.ASCII)
_LINK_START = re.compile(r"Link\b", re.ASCII)
_RATE = re.compile(
    r"Link (\d{1,3}):\s*(?:(\d{1,5}(?:\.\d{1,6})?) GB/s|<?((?i:inactive))>?)\s*"
)  # Gb/s would be bits
_REMOTE = re.compile(
    r"Link (\d{1,3}):\s*(?:Remote Device )?([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
    r"(?::\s*Link (\d{1,3}))?\s*",
    re.ASCII | re.IGNORECASE,
)
_MIG_START = re.compile(r"MIG (?!M\. )", re.ASCII)  # a heading of nvidia-smi's table
_MIG = re.compile(
    r"MIG (\S{1,40})\s+Device\s+(\d{1,3}):\s*\(UUID: (MIG-[0-9A-Za-z/-]{8,80})\)\s*", re.ASCII
)
_ALL_INACTIVE = re.compile(r"NVML:.*all links are inactive", re.IGNORECASE)
_NOT_SUPPORTED = re.compile(r"NVML:.*(?:not supported|unable to retrieve)", re.IGNORECASE)
_ELIDED = re.compile(r"(?:\.{2,}|…|\[\.\.\.\]|\(\.\.\.\))\s*")


@dataclass
class _Gpu:
    """One heading and what stands below it."""

    index: int
    name: str
    uuid: str
    line: int
    rates: dict[int, float | None] = field(default_factory=dict)
    remotes: dict[int, str] = field(default_factory=dict)
    slices: list[tuple[str, int, str]] = field(default_factory=list)
    all_inactive: bool = False
    without: bool = False


def parse(file: FileText) -> Topology:
    """Read GPUs, their MIG slices and the state of their NVLinks."""
    report: list[str] = []
    gpus = _gpus(clean_lines(file.text), report, file)
    if not gpus:
        raise file.refusal("no GPU is listed")
    _report_gaps(gpus, file, report)
    devices = _devices(gpus)
    lanes = _lanes(gpus, report, file)
    is_nvlink = lanes or any(gpu.all_inactive or gpu.without for gpu in gpus)
    origin = "nvidia-smi nvlink -s text" if is_nvlink else "nvidia-smi -L text"
    return told_machine(origin=origin, devices=devices, lanes=lanes, report=report)


def _gpus(lines: Sequence[Line], report: list[str], file: FileText) -> list[_Gpu]:
    """All GPUs in order; a second output of the same GPUs adds to the first."""
    gpus: dict[int, _Gpu] = {}
    current: _Gpu | None = None
    for line in lines:
        text = without_marks(line.text)
        if match := _heading_of(text):
            current = _heading(gpus, match, line.number, file)
        elif _GPU_START.match(text):
            raise file.refusal(f"damaged heading of a GPU: {text[:60]!r}", line.number)
        elif _ELIDED.fullmatch(text):
            report.append(f"line {line.number} leaves something out: {text.strip()!r}")
            current = None
        elif _LINK_START.match(text) or _MIG_START.match(text):
            if current is None:
                raise file.refusal("a link or slice without its GPU above it", line.number)
            _detail(current, text, line.number, file)
        elif current is not None and _ALL_INACTIVE.search(text):
            current.all_inactive = True
        elif current is not None and _NOT_SUPPORTED.search(text):
            current.without = True
    cut = next((gpu for gpu in gpus.values() if not gpu.uuid), None)
    if cut is not None and any(gpu.uuid for gpu in gpus.values()):
        raise file.refusal(f"damaged heading of a GPU: 'GPU {cut.index}: {cut.name}'", cut.line)
    return [gpus[index] for index in sorted(gpus)]


def _heading_of(text: str) -> re.Match[str] | None:
    """Number, name and UUID, or "", of the GPU that a line begins."""
    return _GPU.fullmatch(text) or _LISTED.fullmatch(text)


def _heading(gpus: dict[int, _Gpu], match: re.Match[str], line: int, file: FileText) -> _Gpu:
    index, name, uuid = int(match[1]), match[2], match[3]
    known = gpus.setdefault(index, _Gpu(index, name, uuid, line))
    uuid = uuid or known.uuid
    known.uuid = known.uuid or uuid
    if known.uuid != uuid:
        raise file.refusal(
            f"GPU {index} is {uuid} here, but {known.uuid} in line {known.line}: outputs of"
            " different machines, or of before and after a change",
            line,
        )
    other = next((g for g in gpus.values() if g.uuid == uuid != "" and g is not known), None)
    if other is not None:
        raise file.refusal(f"GPU {index} has the UUID of GPU {other.index}", line)
    return known


def _detail(gpu: _Gpu, text: str, line: int, file: FileText) -> None:
    if match := _RATE.fullmatch(text):
        lane, rate = int(match[1]), float(match[2]) * GB_PER_S if match[2] else None
        if lane >= _MAX_LANES or lane in gpu.rates or rate == 0:
            raise file.refusal(
                f"lane {lane} of GPU {gpu.index} is stated twice or impossible", line
            )
        gpu.rates[lane] = rate
    elif match := _REMOTE.fullmatch(text):
        gpu.remotes[int(match[1])] = canonical_pci(match[2])
    elif not gpu.uuid and _MIG_START.match(text):
        return  # a slice without UUID is known by nothing
    elif match := _MIG.fullmatch(text):
        number, uuid = int(match[2]), match[3]
        if any(known in (number, uuid) for _, *each in gpu.slices for known in each):
            raise file.refusal(f"MIG slice {number} of GPU {gpu.index} is stated twice", line)
        gpu.slices.append((match[1], number, uuid))
    elif not re.fullmatch(r"Link \d{1,3}, .{1,120}", text):  # capabilities: nvlink -c
        raise file.refusal(f"damaged line: {text[:60]!r}", line)


def _report_gaps(gpus: Sequence[_Gpu], file: FileText, report: list[str]) -> None:
    indices = {gpu.index for gpu in gpus}
    missing = sorted(set(range(max(indices))) - indices)
    if missing:
        report.append(
            f"GPU {', '.join(map(str, missing[:8]))} not listed: part of the output, or of the"
            " machine"
        )
    for gpu in gpus:
        like = len(_lanes_of_like(gpu, gpus))
        if gpu.rates and len(gpu.rates) < like:
            report.append(f"GPU {gpu.index} states {len(gpu.rates)} NVLinks, its like {like}")
    if not file.text.endswith(("\n", "\r")):
        report.append("the file ends without a newline: its end may be cut")


def _devices(gpus: Sequence[_Gpu]) -> list[Device]:
    """GPUs, then their MIG slices."""
    devices = [
        Device(
            id=f"GPU{gpu.index}",
            index=gpu.index,
            vendor=Vendor.NVIDIA,
            name=gpu.name,
            uuid=gpu.uuid or None,
        )
        for gpu in gpus
    ]
    devices += [
        Device(
            id=f"GPU{gpu.index}/{number}",
            vendor=Vendor.NVIDIA,
            name=f"{gpu.name} MIG {profile}",
            uuid=uuid,
            parent=f"GPU{gpu.index}",
        )
        for gpu in gpus
        for profile, number, uuid in gpu.slices
    ]
    return devices


def _lanes_of_like(gpu: _Gpu, gpus: Sequence[_Gpu]) -> list[int]:
    """The lanes that GPUs of the same name state, from the one that states most."""
    like = [g for g in gpus if g.name == gpu.name]
    return list(max(like, key=lambda g: len(g.rates)).rates)


def _lanes(gpus: Sequence[_Gpu], report: list[str], file: FileText) -> tuple[LaneState, ...]:
    """The state of every lane.

    A GPU of which NVML says only that all lanes are inactive has as many as its like have.
    """
    lanes = []
    for gpu in gpus:
        rates = dict(gpu.rates)
        if gpu.all_inactive and not rates:
            rates = dict.fromkeys(_lanes_of_like(gpu, gpus))
            report.append(f"all NVLinks of GPU {gpu.index} are inactive")
        if gpu.remotes and not rates:
            raise file.refusal(
                "this says where NVLinks end, not at which rate they run",
                gpu.line,
                hint="add their state: nvidia-smi nvlink -s >> FILE",
            )
        inactive = [lane for lane, rate in rates.items() if rate is None]
        if gpu.rates and inactive:
            report.append(
                f"{len(inactive)} of {len(rates)} NVLinks of GPU {gpu.index} are inactive: lanes"
                f" {', '.join(map(str, sorted(inactive)))}"
            )
        lanes += [
            LaneState(
                device=f"GPU{gpu.index}",
                lane=lane,
                bytes_per_s=rate,
                remote_pci=gpu.remotes.get(lane),
            )
            for lane, rate in sorted(rates.items())
        ]
    return tuple(lanes)
