"""One `Traffic` from what the ranks of one run left in one folder, or in several.

Records are read one after the other and added up; what stays in memory grows with the pairs that
talk, the shapes of collectives and the ranks, never with ranks times ranks.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from toposeat.errors import InputError, ToposeatError
from toposeat.model.cpu_list import format_cpu_list
from toposeat.model.few import first_few
from toposeat.model.files import beginning
from toposeat.model.job_folder import RECORD_SUFFIX, TORCH_SUFFIX
from toposeat.model.plural import nouns
from toposeat.model.rank_info import CPU_RANKS, cpu_doubt, file_doubt
from toposeat.model.traffic import BESIDE, LEFT_OUT, WORLDS_OF_ONE, Traffic
from toposeat.profile.records.record import RankRecord, read_record, record_paths
from toposeat.profile.records.segment import CAUSE_SUFFIX, HOST_SUFFIX, SUFFIX, Flag, State
from toposeat.profile.records.torch_job import joined, read_torch_records
from toposeat.profile.records.world import WorldSum
from toposeat.profile.records.world_traffic import make_traffic

LEFT_NO_RECORD = "left no record"
NO_WORD = "nothing came from its node"
_LISTED, _LISTED_GROUPS = 8, 4  # ranks, and groups of them, that a sentence names
_NAME = re.compile(r"rank-(\d{1,9})-(\d{1,19})(.*)", re.ASCII | re.DOTALL)
_MAX_HOST_NAME = 256


def missing_ranks(traffic: Traffic, folders: Sequence[Path], why: str = "") -> str:
    """The ranks without a record, grouped by host and cause; empty if there are none.

    `why` is what is known of what ranks left on nodes that have told that they started there.
    """
    missing = set(range(traffic.ranks)).difference(info.rank for info in traffic.rank_info)
    if not missing:
        return ""
    host_of = {} if _others_start_ranks(folders) else noted_hosts(folders)
    cause_of: dict[int, str] = {}
    for folder in folders:
        for path in folder.glob("rank-*"):
            match = _NAME.fullmatch(path.name)
            if match is None or int(match[1]) not in missing:
                continue
            rank, rest = int(match[1]), match[3]
            if rest == SUFFIX:
                cause_of[rank] = "its record cannot be used"
            elif rest.startswith(CAUSE_SUFFIX) and rest[len(CAUSE_SUFFIX) :][:9].isdecimal():
                cause_of[rank] = os.strerror(int(rest[len(CAUSE_SUFFIX) :][:9]))
    groups: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for rank in sorted(missing):
        host = host_of.get(rank, "")
        told = why or "it made no MPI call, or its record was removed"
        groups[host, cause_of.get(rank, told if host else NO_WORD)].append(rank)
    parts = [_group(ranks, host, cause) for (host, cause), ranks in groups.items()]
    more = f" ({len(parts)} such groups)" if len(parts) > _LISTED_GROUPS else ""
    listed = first_few(parts, _LISTED_GROUPS, "; ")
    return f"{len(missing)} of {traffic.ranks} ranks have no record: {listed}{more}"


def noted_hosts(folders: Sequence[Path]) -> dict[int, str]:
    """By rank: the host that started it, where toposeat-exec left word of that."""
    hosts = {}
    for folder in folders:
        for path in folder.glob(f"rank-*{HOST_SUFFIX}"):
            match = _NAME.fullmatch(path.name)
            name = beginning(path, _MAX_HOST_NAME).decode("ascii", "replace")
            if match is not None and name.isprintable():
                hosts[int(match[1])] = name
    return hosts


def _others_start_ranks(folders: Sequence[Path]) -> bool:
    """Whether what a launcher started, torchrun for example, has other numbers than the ranks."""
    started: defaultdict[str, set[str]] = defaultdict(set)
    recorded: defaultdict[str, set[str]] = defaultdict(set)
    for suffix, processes in ((HOST_SUFFIX, started), (TORCH_SUFFIX, recorded)):
        for folder in folders:
            for path in folder.glob(f"rank-*{suffix}"):
                rank, _, process = path.name.removesuffix(suffix)[5:].partition("-")
                processes[rank].add(process)
    return any(rank in started and not started[rank] & recorded[rank] for rank in recorded)


def _group(ranks: Sequence[int], host: str, cause: str) -> str:
    """`ranks 0-3, 8 on node1 (it made no MPI call)`."""
    shown = first_few(format_cpu_list(ranks).split(","), _LISTED)
    where = f" on {host}" if host else ""
    return f"{nouns(len(ranks), 'rank')} {shown}{where} ({cause})"


Progress = Callable[[int, int], None]  # records merged, of all


_World = tuple[str, int]  # the launcher's name of the job, number of ranks


class _Merger:
    """All worlds that a folder's records belong to."""

    def __init__(self) -> None:
        self.own: dict[_World, WorldSum] = {}
        self.died_in_init = 0  # ended before MPI was initialised
        self.repeated = 0  # second records of one rank
        self.unnamed: dict[int, WorldSum] = {}  # by size: with second records of the same time
        self.nested = 0  # records of jobs that ranks started themselves
        self.damaged: list[InputError] = []

    def add(self, path: Path) -> None:
        """Read one rank's record; a damaged one is set aside, and reported."""
        try:
            record = read_record(path)
        except InputError as error:
            self.damaged.append(error)
            return
        if record is None:
            self.died_in_init += 1
        elif record.has(Flag.INSIDE_RANK):
            self.nested += 1
        else:
            self._sort_in(record)

    def _sort_in(self, record: RankRecord) -> None:
        key = (record.world, record.world_size)
        if key not in self.own:
            self.own[key] = WorldSum(record)
        world = self.own[key]
        if not world.add(record):
            self.repeated += 1
            if world.is_beside(record.info.host, record.span_ns):
                self.unnamed[world.size] = world  # of a launcher that gives its jobs no names

    @property
    def alone(self) -> int:
        """How many processes were a world of one rank each, if all were; 0 for a single one."""
        processes = sum(len(world.seen) for world in self.own.values()) + self.repeated
        return processes if processes > 1 and all(size == 1 for _, size in self.own) else 0

    def beside_of(self, chosen: WorldSum) -> list[int]:
        """Numbers of ranks of the jobs that ran at the same time."""
        others = (world for world in self.own.values() if world is not chosen)
        beside = [each.size for each in others if each.is_beside(chosen.host, chosen.span_ns)]
        return [*beside, *self.unnamed]

    def left(self, chosen: WorldSum) -> Iterator[str]:
        """What is not in the tables of the chosen world, in words."""
        if self.nested:
            yield f"what {self.nested} processes of MPI jobs sent that ranks started"
        if len(self.own) > 1 and not self.alone:
            yield f"what {len(self.own) - 1} other MPI jobs of the line sent"
        if chosen.flags[Flag.SPAWNS]:
            yield "what MPI_Comm_spawn started"
        if chosen.outside["messages"] or chosen.lost["messages"] or chosen.lost["events"]:
            yield "what could not be attributed to two ranks"

    def sentences(self) -> Iterator[str]:
        """What the report says of records that are left out, the gravest first."""
        if self.damaged:
            said = (f"{Path(e.path or '?').name}: {e.message}" for e in self.damaged)
            yield f"{len(self.damaged)} damaged records are left out: {first_few(said, 4, '; ')}"
        if self.died_in_init:
            yield f"{self.died_in_init} ranks died while MPI was being initialised"
        if self.nested:
            yield (
                f"{self.nested} processes belong to MPI jobs that ranks started themselves and are"
                " left out"
            )
        if self.repeated:
            yield f"{self.repeated} ranks left a second record: several MPI runs; the first is used"
        if self.alone:
            yield f"{self.alone} processes, each a world of one rank; the first is used"
        elif len(self.own) > 1:
            yield f"the line started {len(self.own)} MPI jobs; the largest one is used"


def read_records(*directories: str | Path, progress: Progress | None = None) -> Traffic:
    """Merge the `.tpsrec` files of one run: one folder, or one per node.

    Ranks without a record, damaged records and everything that could not be counted are named in
    `Traffic.report`; `RankInfo.finalized` says which ranks came to their end.
    """
    paths = _paths([Path(each) for each in directories])
    merger = _Merger()
    for done, path in enumerate(paths, 1):
        merger.add(path)
        if progress is not None:
            progress(done, len(paths))
    if not merger.own:
        if merger.damaged:
            raise merger.damaged[0]
        where = " and ".join(map(str, directories))
        raise ToposeatError(
            f"{where} holds no traffic record", hint="was the program run under the interposer?"
        )
    chosen = max(merger.own.values(), key=lambda world: len(world.seen))
    # What the numbers of a merged world do not show, the gravest first.
    doubts = filter(None, (cpu_doubt(chosen.ranks), file_doubt(chosen.ranks)))
    told = (_missing(chosen), doubts, _lost(chosen), _devices(chosen))
    report = [*merger.sentences(), *(line for lines in told for line in lines)]
    try:
        traffic = make_traffic(chosen, report, len(merger.damaged))
        found = {
            WORLDS_OF_ONE: str(merger.alone or ""),
            LEFT_OUT: ", ".join(merger.left(chosen)),
            CPU_RANKS: _without_driver(chosen),
            BESIDE: ", ".join(map(str, merger.beside_of(chosen))),
        }
        kept = {key: value for key, value in found.items() if value}
        return replace(traffic, metadata={**traffic.metadata, **kept})
    except (ValueError, OverflowError) as error:  # each record is sound, their sum is not
        raise InputError(
            f"the records contradict each other: {error}",
            path=paths[0].parent,
            hint="profile again",
        ) from error


def _paths(folders: Sequence[Path]) -> list[Path]:
    """All records, by rank and then by process, so that of two runs the first comes first."""
    paths = []
    for folder in folders:
        if not folder.is_dir():
            raise InputError("no such folder of traffic records", hint="profile first", path=folder)
        paths += record_paths(folder)

    def order(path: Path) -> tuple[int, int, str]:
        match = _NAME.fullmatch(path.name)
        return (int(match[1]), int(match[2]), "") if match else (1 << 31, 0, path.name)

    return sorted(paths, key=order)


def _without_driver(world: WorldSum) -> str:
    """The ranks that ended without a GPU driver, as a list, where all others had one."""
    drivers = {*world.flags[Flag.GPU_RUNTIME]}
    bare = {*world.states[State.FINALIZED]} - drivers
    complete = drivers and len(bare | drivers) == world.size
    return format_cpu_list(sorted(bare)) if complete else ""


def _missing(world: WorldSum) -> Iterator[str]:
    yield from _say((r for r in range(world.size) if r not in world.seen), LEFT_NO_RECORD)
    yield from _say(world.states[State.ABORTED], "called MPI_Abort")


def _lost(world: WorldSum) -> Iterator[str]:
    lost = world.lost
    if lost["messages"]:
        yield f"{lost['messages']} messages ({lost['bytes']} bytes) could not be attributed"
    if lost["events"]:
        yield f"{lost['events']} collective calls could not be recorded"
    outside = world.outside
    if outside["messages"]:
        yield (
            f"{outside['messages']} messages ({outside['bytes']} bytes) are with processes outside"
            " MPI_COMM_WORLD: not in the tables of rank pairs"
        )
    what = "called MPI_Comm_spawn: the processes that it started are not recorded"
    yield from _say(world.flags[Flag.SPAWNS], what)
    what = "made collectives of very many sizes: some are merged by size class"
    yield from _say(world.by_class, what)
    if world.communicators_left_out:
        yield f"{world.communicators_left_out} communicators are left out: too many members"
    yield from _say(
        world.flags[Flag.PHASES_MERGED],
        "had more phases than there is room for: the last holds the rest",
    )
    if world.phase_pairs_left_out:
        yield "the rank pairs of phases are left out: there are too many; their times are here"


def _devices(world: WorldSum) -> Iterator[str]:
    yield from _say(world.flags[Flag.SEVERAL_DEVICES], "used buffers of several devices")
    yield from _say(
        world.flags[Flag.LEVEL_ZERO], "use Level Zero: device buffers are counted as host memory"
    )
    yield from _say(
        world.flags[Flag.NOT_GPU_AWARE],
        "gave device memory to an MPI that says it is not GPU-aware",
    )


def _say(ranks: Iterable[int], what: str) -> Iterator[str]:
    listed = sorted(ranks)
    if listed:
        names = first_few(map(str, listed), _LISTED)
        more = f" ({len(listed)} in all)" if len(listed) > _LISTED else ""
        yield f"{nouns(len(listed), 'rank')} {names}{more} {what}"


def a_record(folder: Path) -> Path | None:
    """Some record in a folder."""
    kinds = (folder.glob(f"*{suffix}") for suffix in (RECORD_SUFFIX, TORCH_SUFFIX))
    return next((path for found in kinds for path in found), None)


def read_folders(*folders: Path, progress: Progress | None = None) -> Traffic:
    """The traffic of one run, of both recorders where both left records."""
    if not any(True for folder in folders for _ in folder.glob(f"*{TORCH_SUFFIX}")):
        return read_records(*folders, progress=progress)
    torch = read_torch_records(*folders)
    if not any(True for folder in folders for _ in folder.glob(f"*{RECORD_SUFFIX}")):
        return torch
    mpi = read_records(*folders, progress=progress)
    if mpi.ranks == torch.ranks:
        return joined(mpi, torch)
    left = f"PyTorch alone: {torch.ranks} of its ranks, where MPI had {mpi.ranks}"
    return replace(torch, report=(*torch.report, left))
