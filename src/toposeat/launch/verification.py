"""What the ranks of a job told: read from their reports, compared with the placement, in words.

Files hold lines `key<TAB>value`; control characters are escaped as backslash, x and two digits, and
the backslash is doubled (`launcher/src/report.c`).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from toposeat.errors import NotAsPlannedError, ToposeatError
from toposeat.launch.home_job import Verdicts
from toposeat.launch.nic_words import other_nics
from toposeat.model.cpu_list import format_cpu_list, parse_cpu_list
from toposeat.model.files import beginning
from toposeat.model.placement import Placement, Seat
from toposeat.model.plural import nouns
from toposeat.model.rank_info import CPU_RANKS
from toposeat.model.record import Record
from toposeat.model.runs import RealisedSeat, SeatVerdict
from toposeat.model.topology import Vendor, canonical_pci

REPORT_SCHEMA = "# toposeat/report/1"
PROBE_SCHEMA = "# toposeat/probe/1"

_MAX_BYTES = 1 << 20
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|\\)")


class RankReports(Record, frozen=True, kw_only=True):
    """The reports of one rank: of its seat, and by the probe of each process that counts."""

    seat: Mapping[str, tuple[str, ...]]
    probes: tuple[Mapping[str, tuple[str, ...]], ...] = ()

    def value(self, key: str) -> str | None:
        """The first value of `key` in the seat report."""
        return first_value(self.seat, key)


class ReportFolder(Record, frozen=True, kw_only=True):
    """The reports of a run by rank. `unreadable` names files that are not what they should be."""

    ranks: Mapping[int, RankReports]
    unreadable: tuple[str, ...] = ()


def first_value(report: Mapping[str, tuple[str, ...]], key: str) -> str | None:
    """The first value of `key`, None if the report has none."""
    values = report.get(key)
    return values[0] if values else None


def left_out(report: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """What of its seat a rank goes without, and why: `cpus`, `memory`, `nic` or `peers`."""
    begin = "left_out_"
    return {
        key.removeprefix(begin): found[0] for key, found in report.items() if key.startswith(begin)
    }


def read_reports(folder: Path, told: Mapping[int, str] | None = None) -> ReportFolder:
    """Read the reports that ranks and probes left in a folder; damaged ones are named and left out.

    `told` are seat reports by rank that came home instead.
    """
    seats: dict[int, Mapping[str, tuple[str, ...]]] = {}
    probes: dict[int, dict[str | None, Mapping[str, tuple[str, ...]]]] = {}
    unreadable: list[str] = []
    for told_rank, text in (told or {}).items():
        seat = parse_seat_report(text)
        if seat is None:
            unreadable.append(f"of rank {told_rank}")
        else:
            seats[told_rank] = seat
    for path in sorted(folder.iterdir(), key=_in_time):
        if path.suffix not in {".seat", ".probe"} or path.name.startswith("."):
            continue
        schema = REPORT_SCHEMA if path.suffix == ".seat" else PROBE_SCHEMA
        report = _read(path, schema)
        rank = _number(first_value(report, "rank")) if report is not None else None
        if report is None or rank is None:
            unreadable.append(path.name)
        elif path.suffix == ".seat":
            seats[rank] = report
        else:
            _take(probes.setdefault(rank, {}), report)
    return ReportFolder(
        ranks={
            rank: RankReports(seat=seats[rank], probes=tuple(probes.get(rank, {}).values()))
            for rank in sorted(seats)
        },
        unreadable=tuple(unreadable),
    )


def _take(
    own: dict[str | None, Mapping[str, tuple[str, ...]]], report: Mapping[str, tuple[str, ...]]
) -> None:
    """The last word of a process counts, but that before MPI_Finalize for more than any other."""
    process = first_value(report, "pid")
    if first_value(own.get(process, {}), "when") != "MPI_Finalize":
        own[process] = report


def _in_time(path: Path) -> tuple[str, int]:
    """Of several reports of a process the later one is behind: `rank-R-PID-TIME.probe`."""
    begin, _, time = path.stem.rpartition("-")
    return (begin, int(time)) if begin.count("-") > 1 and time.isdecimal() else (path.stem, 0)


def rank_so_far(path: Path, told: Mapping[int, str]) -> tuple[int, RankReports] | None:
    """A rank, with what it told at one point while it runs; None for any other report.

    `told` are seat reports by rank that came home, others lie beside `path`.
    """
    probe = _read(path, PROBE_SCHEMA)
    rank = None if probe is None else _number(first_value(probe, "rank"))
    if probe is None or rank is None or not is_point(probe):
        return None
    if rank in told:
        seat = parse_seat_report(told[rank])
    else:
        beside = path.with_name(f"rank-{rank}.seat")
        seat = _read(beside, REPORT_SCHEMA) if beside.exists() else None
    return None if seat is None else (rank, RankReports(seat=seat, probes=(probe,)))


def is_point(probe: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether a process told this where MPI or PyTorch had begun: it goes on after that."""
    when = first_value(probe, "when") or ""
    return when in ("init_process_group", "new_group") or (
        when.startswith("MPI_") and when != "MPI_Finalize"
    )


def _read(path: Path, schema: str) -> Mapping[str, tuple[str, ...]] | None:
    data = beginning(path, _MAX_BYTES + 1)
    return None if len(data) > _MAX_BYTES else _parse(data.decode("utf-8", "replace"), schema)


def parse_seat_report(text: str) -> Mapping[str, tuple[str, ...]] | None:
    """The values by key of what toposeat-exec wrote about a rank, None if it is not whole."""
    return _parse(text, REPORT_SCHEMA)


def _parse(text: str, schema: str) -> Mapping[str, tuple[str, ...]] | None:
    lines = text.split("\n")
    if lines[0] != schema or lines[-1] != "":
        return None
    values: dict[str, list[str]] = {}
    for line in lines[1:-1]:
        key, tab, value = line.partition("\t")
        if not tab:
            return None
        plain = _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else "\\", value)
        values.setdefault(key, []).append(plain)
    return {key: tuple(found) for key, found in values.items()}


def _number(text: str | None) -> int | None:
    """What is known, None for anything else (toposeat-exec writes -1 where it does not know)."""
    if text is None or not (text.isascii() and text.isdigit() and len(text) < 10):
        return None
    return int(text)


_MPICH = "MPICH Version:"


def count_neighbours(placement: Placement, reports: ReportFolder) -> dict[int, tuple[int, int]]:
    """By rank: how many other ranks share a segment with it, and how many others its host has.

    MPICH makes one segment of shared memory for the ranks of a node. Where its launcher told it a
    wrong map of the job, every rank has its own, or none. Other MPI libraries show nothing of the
    kind. Only ranks of hosts with several ranks are in it, all of which told their segments.
    """
    ranks_of_host: dict[str, list[int]] = defaultdict(list)
    for seat in placement.seats:
        ranks_of_host[seat.host].append(seat.rank)
    counts: dict[int, tuple[int, int]] = {}
    for ranks in ranks_of_host.values():
        told = {rank: _segments(reports.ranks.get(rank)) for rank in ranks}
        known = {rank: own for rank, own in told.items() if own is not None}
        if len(ranks) > 1 and len(known) == len(ranks):
            counts |= _sharing(known)
    return counts


def _sharing(segments: Mapping[int, frozenset[str]]) -> dict[int, tuple[int, int]]:
    ranks_with = Counter(segment for own in segments.values() for segment in own)
    others = len(segments) - 1
    return {
        rank: (max((ranks_with[segment] - 1 for segment in own), default=0), others)
        for rank, own in segments.items()
    }


def _segments(own: RankReports | None) -> frozenset[str] | None:
    """What a rank had before MPI_Finalize; None where that is not known."""
    for probe in own.probes if own is not None else ():
        mpi = first_value(probe, "mpi") or ""
        if first_value(probe, "when") == "MPI_Finalize" and mpi.startswith(_MPICH):
            return frozenset(probe.get("mpich_segment", ()))
    return None


_MAX_CAUSES = 8
_ELSEWHERE = "is placed on another"
_NO_PROGRAM = "is not found, or cannot be executed"  # of toposeat-exec


def refusal_lines(
    verdicts: Verdicts, ranks: int, hosts: Mapping[int, str] | None = None
) -> list[str]:
    """The verdict, then every cause with its ranks, the commonest first; at most ten lines.

    `hosts` says where each rank is placed: nodes are told of their own ranks only.
    """
    causes = _causes(verdicts, hosts or {})
    missing = sorted(set(range(ranks)) - set(verdicts.reports))
    if missing and not causes:
        causes["was not heard"] = missing
    lines = [f"Not started: {_heading(verdicts, ranks)}"]
    ordered = sorted(causes.items(), key=lambda cause: (-len(cause[1]), cause[1]))
    lines += [f"  {ranks_in_words(own)}: {cause}" for cause, own in ordered[:_MAX_CAUSES]]
    if len(ordered) > _MAX_CAUSES:
        left = {rank for _, own in ordered[_MAX_CAUSES:] for rank in own}
        lines.append(f"  {ranks_in_words(sorted(left))}: {len(ordered) - _MAX_CAUSES} causes more")
    return lines


def refusal_error(
    verdicts: Verdicts, ranks: int, *, strict: bool = False, unheard: str = ""
) -> ToposeatError:
    """The error that ends `run` after `refusal_lines` were told; `unheard`: a hint for silence."""
    cause = f"no rank was started: {_heading(verdicts, ranks)}"
    if verdicts.unseated and all(each.endswith(_NO_PROGRAM) for each in _causes(verdicts, {})):
        hint = "check the name of the program, or load its module"
        return ToposeatError(cause, hint=hint)
    hint = (
        "make a placement for the nodes and devices of this job with toposeat map; or give the job"
        " those that it was made for"
    )
    kind = NotAsPlannedError if strict else ToposeatError
    return kind(cause, hint=hint if verdicts.unseated or verdicts.nameless else unheard)


def _heading(verdicts: Verdicts, ranks: int) -> str:
    unseated = len(verdicts.unseated) or len(verdicts.nameless)
    if unseated:
        return f"{unseated} of {ranks} ranks cannot be seated as placed"
    return f"{ranks - len(verdicts.reports)} of {ranks} ranks could not be asked"


def _causes(verdicts: Verdicts, hosts: Mapping[int, str]) -> dict[str, list[int]]:
    causes: dict[str, list[int]] = {}
    for rank in sorted(verdicts.unseated):
        report = parse_seat_report(verdicts.reports[rank]) or {}
        found = (*report.get("refusal", ()), *report.get("warning", ()), *left_out(report).values())
        cause = found[0] if found else "gave no cause"
        if cause.endswith(_ELSEWHERE) and rank in hosts:
            cause = f"{cause.removesuffix(_ELSEWHERE)}is placed on host {hosts[rank]}"
        causes.setdefault(cause, []).append(rank)  # the others follow from it
    for text in verdicts.nameless:
        report = parse_seat_report(text) or {}
        for cause in report.get("refusal", ("gave no cause",)):
            causes.setdefault(cause, [])
    return causes


def ranks_in_words(ranks: list[int]) -> str:
    """Ranks for people: `ranks 0-3,8`."""
    if not ranks:
        return "processes without a rank"
    return f"{nouns(len(ranks), 'rank')} {format_cpu_list(ranks)}"


_NO_CUDA = {
    "not loaded": "the program loaded no CUDA driver",
    "not initialised": "the program did not initialise the CUDA driver",
    "already shut down": "the CUDA driver had shut down when it was asked",
}


def verify(
    placement: Placement, reports: ReportFolder, *, remote: bool = False, exit_code: int = 0
) -> tuple[RealisedSeat, ...]:
    """One verdict per rank of the placement.

    With `remote` reports came over the network, so that one may be missing for that alone.
    `exit_code`, of the job, says why a rank may have left none.

    `AS_PLACED` needs proof from the GPU driver that the rank used its device, and all the rest as
    placed. `MISMATCH` names what differs. Anything else is `NOT_CHECKED`; `differences` then says
    what is not known and why.
    """
    neighbours = count_neighbours(placement, reports)
    return tuple(
        _verify_rank(placement, seat, reports, neighbours.get(seat.rank), (remote, exit_code))
        for seat in placement.seats
    )


@dataclass
class _Findings:
    """How a rank differs from its seat, and what could not be checked."""

    mismatches: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    used_device: bool | None = None
    device_proved: bool = False

    @property
    def verdict(self) -> SeatVerdict:
        if self.mismatches:
            return SeatVerdict.MISMATCH
        return SeatVerdict.AS_PLACED if self.device_proved else SeatVerdict.NOT_CHECKED

    @property
    def sentences(self) -> tuple[str, ...]:
        return (*self.mismatches, *self.remarks, *(f"not checked: {each}" for each in self.unknown))


def is_stopped(own: RankReports) -> bool:
    """Whether toposeat-exec did not start a rank, if it was told to be strict."""
    return bool(_warnings(own) or left_out(own.seat))


def _verify_rank(
    placement: Placement,
    seat: Seat,
    reports: ReportFolder,
    neighbours: tuple[int, int] | None,
    job: tuple[bool, int],
) -> RealisedSeat:
    remote, exit_code = job
    own = reports.ranks.get(seat.rank)
    if own is None:
        return _without_report(seat, {} if remote else reports.ranks)
    findings = _Findings()
    final = _final(own)
    if own.value("seated") != "yes":
        findings.mismatches.append("started without placement")
        findings.mismatches += _warnings(own)
    else:
        nearby = _nearby(placement, own, seat)
        _compare_cpus(nearby, own, final, findings)
        _compare_memory(nearby, own, final, findings)
        _compare_nic(nearby, own, findings)
        _compare_device(placement, seat, own, exit_code, findings)
        world = world_of(own)
        if world is not None and world < placement.ranks:
            findings.mismatches.append(f"its MPI_COMM_WORLD has {world} of {placement.ranks} ranks")
        else:
            _compare_neighbours(neighbours, findings)
        findings.remarks += left_out(own.seat).values()
        findings.mismatches += [each for each in _warnings(own) if each not in findings.mismatches]
    return RealisedSeat(
        rank=seat.rank,
        host=own.value("host") or "",
        local_rank=_number(own.value("local_rank")),
        pid=_number(own.value("pid")),
        pci_bus_id=",".join(sorted(_used_devices(own))) or None,
        visible_devices=own.value("visible_devices"),
        cpus=first_value(final, "cpus") or own.value("cpus"),
        memory_policy=first_value(final, "memory_policy") or own.value("memory_policy"),
        nic=" ".join(own.seat.get("nic", ())) or None,
        verdict=findings.verdict,
        used_device=findings.used_device,
        differences=findings.sentences,
    )


def _warnings(own: RankReports) -> list[str]:
    return [*own.seat.get("refusal", ()), *own.seat.get("warning", ())]


def _without_report(seat: Seat, others: Mapping[int, RankReports]) -> RealisedSeat:
    """Of a rank of which nothing is known; `others` left reports where it could have left one."""
    sizes = [_number(own.value("size")) or 0 for own in others.values()]
    if others:
        text = "this rank left no report, others did: it was not started through toposeat-exec"
        if min(sizes) > 0 and max(sizes) <= seat.rank:
            text = f"there was no such rank: the job has {max(sizes)}"
        return RealisedSeat(rank=seat.rank, verdict=SeatVerdict.MISMATCH, differences=(text,))
    text = "not checked: its report did not come here"
    return RealisedSeat(rank=seat.rank, verdict=SeatVerdict.NOT_CHECKED, differences=(text,))


def _final(own: RankReports) -> Mapping[str, tuple[str, ...]]:
    """The probe report that says most about the application: at MPI_Finalize before at exit.

    Among several it is the one of the rank's own process: a rank may start MPI programs itself.
    """
    at_finalize = [each for each in own.probes if first_value(each, "when") == "MPI_Finalize"]
    chosen = at_finalize or list(own.probes)
    itself = [each for each in chosen if first_value(each, "pid") == own.value("pid")]
    return (itself or chosen)[-1] if chosen else {}


def _nearby(placement: Placement, own: RankReports, seat: Seat) -> Seat | None:
    """The seat whose CPUs, memory and NIC were to be used: not its own under cpu-only."""
    rank = _number(own.value("nearby_rank"))
    if rank is None:
        return None
    return placement.seats[rank] if 0 <= rank < placement.ranks else seat


def _compare_cpus(
    nearby: Seat | None,
    own: RankReports,
    final: Mapping[str, tuple[str, ...]],
    findings: _Findings,
) -> None:
    if nearby is None or nearby.cpus is None or "cpus" in left_out(own.seat):
        return
    at_start, at_end = own.value("cpus"), first_value(final, "cpus")
    got = at_end or at_start
    if got is None:
        findings.unknown.append("CPU set (it could not be read)")
        return
    wanted, have = _cpus(nearby.cpus), _cpus(got)
    if have - wanted:
        text = f"runs on CPUs {got}, is placed on {nearby.cpus}"
        if at_start is not None and not _cpus(at_start) - wanted:
            text += f"; it was bound to {at_start} and later bound anew, as MPI libraries do"
        findings.mismatches.append(text)
    elif have != wanted:
        findings.remarks.append(f"runs on CPUs {got} of {nearby.cpus}")


def _compare_memory(
    nearby: Seat | None,
    own: RankReports,
    final: Mapping[str, tuple[str, ...]],
    findings: _Findings,
) -> None:
    if nearby is None or nearby.memory_node is None or "memory" in left_out(own.seat):
        return
    got = first_value(final, "memory_policy") or own.value("memory_policy")
    if got is None:
        findings.unknown.append("memory policy (it could not be read)")
    elif got not in (f"preferred:{nearby.memory_node}", f"bind:{nearby.memory_node}"):
        findings.mismatches.append(
            f"memory policy is {got}, is placed on NUMA node {nearby.memory_node}"
        )


def _compare_nic(nearby: Seat | None, own: RankReports, findings: _Findings) -> None:
    if nearby is None or nearby.nic is None or "nic" in left_out(own.seat):
        return
    variables = dict(text.split("=", 1) for text in own.seat.get("nic", ()) if "=" in text)
    local_rank = _number(own.value("local_rank"))
    others, is_named = other_nics(nearby.nic, -1 if local_rank is None else local_rank, variables)
    name = nearby.nic.partition(":")[0]
    if others:
        findings.mismatches.append(f"NIC variables say {' '.join(others)}, placed on {name}")
    elif not is_named:
        findings.unknown.append(f"NIC {name} (no variable points libraries at it)")


def _compare_device(
    placement: Placement, seat: Seat, own: RankReports, exit_code: int, findings: _Findings
) -> None:
    used, needs_one = _used_devices(own), True
    lost = not used and _lost_device(seat, own)
    findings.used_device = True if used else False if _used_none(own, placement.vendor) else None
    with suppress(ValueError):
        needs_one = seat.rank not in parse_cpu_list(placement.metadata.get(CPU_RANKS, ""))
    if lost:
        findings.mismatches.append(lost)
    elif not needs_one and findings.used_device is False:
        findings.device_proved = True
    elif not needs_one and used:
        findings.mismatches.append(f"used device {', '.join(sorted(used))}, is placed without one")
    elif not used:
        findings.unknown.append(f"device ({_why_no_device(own, exit_code)})")
    elif seat.pci_bus_id is None:
        findings.unknown.append("device (the placement does not know its PCI bus id)")
    elif seat.pci_bus_id in used:
        findings.device_proved = True
        others = ", ".join(sorted(used - {seat.pci_bus_id}))
        if others:
            findings.remarks.append(f"also has a context on {others}")
    else:
        findings.mismatches.append(
            f"used device {', '.join(sorted(used))}, placed on {seat.pci_bus_id}"
            f"{_why_another_device(own)}"
        )


def _lost_device(seat: Seat, own: RankReports) -> str:
    """That a driver has taken a list without the rank's device, and keeps it; else nothing."""
    for probe in filter(is_point, own.probes):
        taken = _devices(probe, "cuda_list")
        if taken and seat.pci_bus_id is not None and seat.pci_bus_id not in taken:
            return (
                f"its driver has begun with a list without its device {seat.pci_bus_id}"
                f"{_why_another_device(own)}"
            )
    return ""


def difference_so_far(placement: Placement, rank: int, own: RankReports) -> tuple[str, bool]:
    """What differs from the seat of a rank that runs, "" for nothing; whether that is final.

    It may still bind itself, and take its device: a library often takes another one before.
    """
    if not 0 <= rank < placement.ranks or own.value("seated") != "yes":
        return "", False
    seat, probe = placement.seats[rank], own.probes[0]
    lost, used = _lost_device(seat, own), _used_devices(own)
    findings = _Findings()
    _compare_cpus(_nearby(placement, own, seat), own, probe, findings)
    is_list_known = bool(_devices(probe, "cuda_list"))  # then it has the device, or is `lost`
    said = [lost, "" if is_list_known else _list_difference(own), *findings.mismatches]
    if used and seat.pci_bus_id is not None and seat.pci_bus_id not in used:
        devices = ", ".join(sorted(used))
        said.insert(1, f"has used {devices} alone so far, is placed on {seat.pci_bus_id}")
    first = next(filter(None, said), "")
    return first and f"{first} (asked at {first_value(probe, 'when')})", bool(lost)


def _compare_neighbours(neighbours: tuple[int, int] | None, findings: _Findings) -> None:
    if neighbours is not None and neighbours[0] < neighbours[1]:
        findings.mismatches.append(
            "MPICH shares memory with {} of the {} other ranks of its node: its launcher told it a"
            " wrong map of the job".format(*neighbours)
        )


def world_of(own: RankReports) -> int | None:
    """How many ranks the largest MPI_COMM_WORLD of its processes had, as far as one told."""
    told = (_number(first_value(probe, "world")) for probe in own.probes)
    return max((size for size in told if size is not None), default=None)


def _itself(own: RankReports) -> Mapping[str, tuple[str, ...]] | None:
    """The report of the rank's own process, not of one that it started."""
    pid = own.value("pid")
    return next((each for each in own.probes if first_value(each, "pid") == pid), None)


def _used_none(own: RankReports, vendor: str) -> bool:
    """Whether no process of the rank had a driver of the placed devices, as far as it can be known.

    The CUDA driver is asked; of the others it is only seen whether a library is loaded.
    """
    return _itself(own) is not None and all(
        first_value(each, "cuda") in ("not loaded", "not initialised")
        and not is_point(each)
        and (vendor == Vendor.NVIDIA or "driver" not in each)
        and "child" not in each
        for each in own.probes
    )


_OF_ITS_LIST = ": the program took another one of its list"


def when_asked(seats: Iterable[RealisedSeat], reports: ReportFolder) -> tuple[str, ...]:
    """That a mismatch could be known at the end only."""
    probes = [probe for own in reports.ranks.values() for probe in own.probes]
    if all(each.verdict is not SeatVerdict.MISMATCH or not each.pid for each in seats) or any(
        is_point(each) or first_value(each, "looks") not in (None, "0") for each in probes
    ):
        return ()
    told = [each for each in probes if first_value(each, "looks") == "0"]
    words = (
        "no rank came to MPI_Init or to a process group of PyTorch: they were asked at their end"
    )
    return (words,) if told else ()


def advice(placement: Placement, reports: ReportFolder) -> tuple[str, ...]:
    """What mends a mismatch, where that is sure."""
    told = [
        (seat, own)
        for seat in placement.seats
        if (own := reports.ranks.get(seat.rank)) and own.value("visibility") == "permute"
    ]
    first = {seat.host: seat.pci_bus_id for seat, own in told if own.value("local_rank") == "0"}
    elsewhere = [
        seat.rank
        for seat, own in told
        if seat.pci_bus_id != first.get(seat.host) and _why_another_device(own) == _OF_ITS_LIST
    ]
    if not elsewhere or any(
        own.probes and _used_devices(own) != {first.get(seat.host)} for seat, own in told
    ):
        return ()
    return (
        "every rank took the first device of its list: if the program always takes device 0, run it"
        " with --visibility mask",
    )


def _why_another_device(own: RankReports) -> str:
    """Whether the program made its list of devices anew; by its processes that had a device."""
    asked = [probe for probe in own.probes if first_value(probe, "cuda_devices")]
    asked = asked or [probe for probe in own.probes if first_value(probe, "cuda_list")]
    if not asked or own.value("visible_variable") is None:
        return ""
    changed = _list_difference(replace(own, probes=(asked[0],)))
    return f": {changed}" if changed else _OF_ITS_LIST


def _list_difference(own: RankReports) -> str:
    """How the list of devices of a rank's first process differs from what it was given."""
    name, planned = own.value("visible_variable"), own.value("visible_devices")
    if name is None:
        return ""
    lists = dict(each.split("=", 1) for each in own.probes[0].get("list", ()) if "=" in each)
    now = lists.get(name)
    given = "none" if planned is None else planned
    if now == planned:
        return ""
    if now is None:
        return f"the program removed its device list ({name}; it was given {given})"
    return f"the program changed its device list ({name}={now}; it was given {given})"


def _why_no_device(own: RankReports, exit_code: int) -> str:
    itself = _itself(own)
    if not own.probes or (itself is None and exit_code == 0):
        return f"the rank probe left no report: {_why_no_probe(own, exit_code)}"
    words = [first_value(probe, "cuda") or "" for probe in own.probes]
    if all(map(is_point, own.probes)):
        when = first_value(own.probes[-1], "when")
        return f"asked at {when}, where it had none; the rank was killed later"
    if "asked" in words:
        return "the program made no context on any device"
    if any("child" in probe for probe in own.probes):
        return _why_child_unheard(own)
    drivers = [driver for probe in own.probes for driver in probe.get("driver", ())]
    if drivers:
        return f"{drivers[0]} is loaded, which cannot be asked"
    return next((_NO_CUDA[word] for word in words if word in _NO_CUDA), f"CUDA driver: {words[0]}")


def _why_child_unheard(own: RankReports) -> str:
    for probe in own.probes:
        if "program" in probe:
            name = Path(probe["program"][0]).name
            return f"it started {name} without LD_PRELOAD, so that could not be asked"
    return "a process that it started was killed, and could not be asked"


def _why_no_probe(own: RankReports, exit_code: int) -> str:
    if own.value("linkage") == "static":
        return "the program is linked statically, and loads no library that could tell"
    if exit_code:
        return f"the rank was killed, or ended abruptly (the job ended with code {exit_code})"
    return (
        "LD_PRELOAD was taken from the program, or it ended at once (by a signal or a system call)"
    )


def _used_devices(own: RankReports) -> set[str]:
    """PCI bus ids on which processes of the rank had a context."""
    return set().union(*(_devices(probe, "cuda_devices") for probe in own.probes))


def _devices(probe: Mapping[str, tuple[str, ...]], key: str) -> set[str]:
    found: set[str] = set()
    for text in (first_value(probe, key) or "").split(","):
        with suppress(ValueError):
            found.add(canonical_pci(text))
    return found


def _cpus(text: str) -> frozenset[int]:
    """The members of a Linux CPU list; nothing for what is not one."""
    try:
        return frozenset(parse_cpu_list(text))
    except ValueError:
        return frozenset()
