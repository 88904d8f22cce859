"""Compares what every rank got with the placement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from toposeat.launch.neighbours import count_neighbours
from toposeat.launch.nic_words import other_nics
from toposeat.launch.rank_report import RankReports, ReportFolder, first_value, left_out
from toposeat.model.cpu_list import parse_cpu_list
from toposeat.model.placement import Placement, Seat
from toposeat.model.run_record import RealisedSeat, Verdict
from toposeat.model.topology import canonical_pci

_NO_CUDA = {
    "not loaded": "the program loaded no CUDA driver",
    "not initialised": "the program did not initialise the CUDA driver",
    "already shut down": "the CUDA driver had shut down when it was asked",
}


def verify(
    placement: Placement, reports: ReportFolder, *, remote: bool = False
) -> tuple[RealisedSeat, ...]:
    """One verdict per rank of the placement.

    With `remote` reports came over the network, so that one may be missing for that alone.

    `AS_PLACED` needs proof from the GPU driver that the rank used its device, and all the rest as
    placed. `MISMATCH` names what differs. Anything else is `NOT_CHECKED`; `differences` then says
    what is not known and why.
    """
    neighbours = count_neighbours(placement, reports)
    return tuple(
        _verify_rank(placement, seat, reports, remote, neighbours.get(seat.rank))
        for seat in placement.seats
    )


@dataclass
class _Findings:
    """How a rank differs from its seat, and what could not be checked."""

    mismatches: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    device_proved: bool = False

    @property
    def verdict(self) -> Verdict:
        if self.mismatches:
            return Verdict.MISMATCH
        return Verdict.AS_PLACED if self.device_proved else Verdict.NOT_CHECKED

    @property
    def sentences(self) -> tuple[str, ...]:
        return (*self.mismatches, *self.remarks, *(f"not checked: {each}" for each in self.unknown))


def _verify_rank(
    placement: Placement,
    seat: Seat,
    reports: ReportFolder,
    remote: bool,
    neighbours: tuple[int, int] | None,
) -> RealisedSeat:
    own = reports.ranks.get(seat.rank)
    if own is None:
        return _without_report(seat, any_report=bool(reports.ranks) and not remote)
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
        _compare_device(seat, own, findings)
        _compare_neighbours(neighbours, findings)
        findings.remarks += left_out(own.seat).values()
        findings.mismatches += [each for each in _warnings(own) if each not in findings.mismatches]
    return RealisedSeat(
        rank=seat.rank,
        host=own.value("host") or "",
        local_rank=_optional_int(own.value("local_rank")),
        pid=_optional_int(own.value("pid")),
        pci_bus_id=",".join(sorted(_used_devices(own))) or None,
        visible_devices=own.value("visible_devices"),
        cpus=first_value(final, "cpus") or own.value("cpus"),
        memory_policy=first_value(final, "memory_policy") or own.value("memory_policy"),
        nic=" ".join(own.seat.get("nic", ())) or None,
        verdict=findings.verdict,
        differences=findings.sentences,
    )


def _warnings(own: RankReports) -> list[str]:
    return [*own.seat.get("refusal", ()), *own.seat.get("warning", ())]


def _without_report(seat: Seat, *, any_report: bool) -> RealisedSeat:
    if any_report:
        text = "this rank left no report, others did: it was not started through toposeat-exec"
        return RealisedSeat(rank=seat.rank, verdict=Verdict.MISMATCH, differences=(text,))
    text = "not checked: its report did not come here"
    return RealisedSeat(rank=seat.rank, verdict=Verdict.NOT_CHECKED, differences=(text,))


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
    rank = _optional_int(own.value("nearby_rank"))
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
    local_rank = _optional_int(own.value("local_rank"))
    others, is_named = other_nics(nearby.nic, -1 if local_rank is None else local_rank, variables)
    name = nearby.nic.partition(":")[0]
    if others:
        findings.mismatches.append(f"NIC variables say {' '.join(others)}, placed on {name}")
    elif not is_named:
        findings.unknown.append(f"NIC {name} (no variable points libraries at it)")


def _compare_device(seat: Seat, own: RankReports, findings: _Findings) -> None:
    used = _used_devices(own)
    if seat.pci_bus_id is None:
        findings.unknown.append("device (the placement does not know its PCI bus id)")
    elif seat.pci_bus_id in used:
        findings.device_proved = True
        others = ", ".join(sorted(used - {seat.pci_bus_id}))
        if others:
            findings.remarks.append(f"also has a context on {others}")
    elif used:
        findings.mismatches.append(
            f"used device {', '.join(sorted(used))}, placed on {seat.pci_bus_id}"
        )
    else:
        findings.unknown.append(f"device ({_why_no_device(own)})")


def _compare_neighbours(neighbours: tuple[int, int] | None, findings: _Findings) -> None:
    if neighbours is not None and neighbours[0] < neighbours[1]:
        findings.mismatches.append(
            "MPICH shares memory with {} of the {} other ranks of its node: its launcher told it a"
            " wrong map of the job".format(*neighbours)
        )


def _why_no_device(own: RankReports) -> str:
    if not own.probes:
        return (
            "the rank probe left no report: the rank was killed, or does not load libraries"
            " dynamically"
        )
    words = [first_value(probe, "cuda") or "" for probe in own.probes]
    if "asked" in words:
        return "the program made no context on any device"
    return next((_NO_CUDA[word] for word in words if word in _NO_CUDA), f"CUDA driver: {words[0]}")


def _used_devices(own: RankReports) -> set[str]:
    """PCI bus ids on which processes of the rank had a context."""
    used: set[str] = set()
    for probe in own.probes:
        for text in (first_value(probe, "cuda_devices") or "").split(","):
            try:
                used.add(canonical_pci(text))
            except ValueError:
                continue
    return used


def _cpus(text: str) -> frozenset[int]:
    """The members of a Linux CPU list; nothing for what is not one."""
    try:
        return frozenset(parse_cpu_list(text))
    except ValueError:
        return frozenset()


def _optional_int(text: str | None) -> int | None:
    """A number that is known (toposeat-exec writes -1 where it is not)."""
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
