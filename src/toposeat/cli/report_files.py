"""What the files of `toposeat report` hold, and what follows from them together."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toposeat.cli.command import tell
from toposeat.cli.machine import machine_of, take_from_headers
from toposeat.errors import InputError, UsageError

if TYPE_CHECKING:
    from toposeat.mapping import Machine
    from toposeat.model.evaluation import MappingResult
    from toposeat.model.placement import Placement
    from toposeat.model.topology import Topology
    from toposeat.model.traffic import Traffic
    from toposeat.report import Section


class ReportFiles:
    """What the command line names: nouns in files, a machine, a traffic."""

    def __init__(self) -> None:
        self.machine: Machine | None = None
        self.traffic: Traffic | None = None
        self.placements: list[tuple[Path, Placement]] = []
        self.runs: list[Any] = []
        self.results: list[tuple[Path, MappingResult]] = []

    @staticmethod
    def load(args: argparse.Namespace) -> ReportFiles:
        """From the options of `report`."""
        found = ReportFiles()
        for path in args.files:
            found.add(path)
        found._read_options(args)
        return found

    def _read_options(self, args: argparse.Namespace) -> None:
        from toposeat import profile  # noqa: PLC0415

        if args.traffic is not None:
            self._take(profile.read_traffic(args.traffic))
        if (args.topology, args.node, args.hosts) != (None, None, None):
            self.machine = machine_of(args)

    def _take(self, traffic: Traffic) -> None:
        if self.traffic is not None:
            raise UsageError(
                "report shows one traffic", hint="one at a time: toposeat report F --json"
            )
        self.traffic = traffic

    def read_headers(self, args: argparse.Namespace) -> None:
        """The machine and the traffic of placements that come alone, where both can be read."""
        alone = self.machine is None and self.traffic is None
        if not self.placements or not alone:
            return
        given = argparse.Namespace(**vars(args))
        try:
            paths, placements = zip(*self.placements, strict=True)
            take_from_headers(given, paths, [each.metadata for each in placements])
            self._read_options(given)
        except (InputError, UsageError) as error:
            self.traffic = None
            tell(f"No predictions: {error} (say with -t SRC and --traffic F)")

    def add(self, path: Path) -> None:
        """Take what one file holds, by its first bytes."""
        from toposeat import mapping, profile, topology  # noqa: PLC0415
        from toposeat.model import files, placement_file, result_file  # noqa: PLC0415

        if profile.holds_traffic(path):
            self._take(profile.read_traffic(path))
            return
        text = files.read_text(path)  # once: it may be a pipe
        head = text[:4096]
        if result_file.is_mapping(head):
            self.results.append((path, result_file.parse_mapping(text, path)))
        elif _is_schema(head, result_file.RUN_SCHEMA):
            self.runs.append(result_file.parse_run(text, path))
        elif head.startswith("# toposeat/placement/"):
            self.placements.append((path, placement_file.parse_placement(text, path=path)))
        elif head.lstrip()[:14].lower() == "<!doctype html":
            raise InputError(
                "a report page: it cannot be read back", path=path, hint="open it in a browser"
            )
        elif not head.strip():
            raise InputError("an empty file", path=path, hint="make it again")
        else:
            self.machine = mapping.Machine.of(topology.parse_topology_text(text, path))

    @property
    def listed(self) -> Topology | None:
        """The machine's devices, where results are shown on them."""
        return None if self.machine is None else self.machine.listed()

    def topology_of(self, result: MappingResult) -> Topology | None:
        """The devices that a result is shown on; None where it names its links itself."""
        return self.listed if result.is_listed else None

    @property
    def topology(self) -> Topology | None:
        """The machine where it is to be shown itself: one node, or hosts that a file lists."""
        is_network = self.machine is None or self.machine.shape is not None
        return None if is_network else self.listed

    def mapping_results(self) -> list[MappingResult]:
        """Results to show: saved ones, and given placements assessed on the given machine."""
        from toposeat import pipeline  # noqa: PLC0415

        for path, result in self.results:
            self._check_result(path, result)
        results = [result for _, result in self.results]
        if self.machine is not None and self.traffic is not None:
            rows = [
                pipeline.positions_in(self.machine, placement, self.traffic, path)
                for path, placement in self.placements
            ]
            results += pipeline.assess(self.machine, self.traffic, rows) if rows else ()
        return results

    def _check_result(self, path: Path, result: MappingResult) -> None:
        """Refuse another traffic's, and another machine's; that of a network says what it is on."""
        has_hosts = bool(result.placed.levels)
        if self.traffic is None or (self.listed is None and not has_hosts):
            what = "with its traffic" if has_hosts else "on its machine, with its traffic"
            options = "--traffic F" if has_hosts else "-t SRC and --traffic F"
            raise UsageError(
                f"{path}: a mapping is shown {what}",
                hint=f"add {options} as given to `toposeat map`",
            )
        if result.ranks != self.traffic.ranks:
            raise InputError(
                f"a mapping of {result.ranks} ranks; the traffic has {self.traffic.ranks}",
                path=path,
                hint="give the traffic that was mapped",
            )
        topology = self.topology_of(result)
        if topology is None:
            return
        links = {link.id for link in topology.links}
        used = {load.link for load in (*result.default.links, *result.placed.links)}
        inside = range(len(topology.devices))
        if not used <= links or any(at not in inside for at in result.device_of_rank):
            raise InputError(
                f"this mapping was made for another machine than {topology.name}",
                path=path,
                hint="give the machine of the mapping with -t SRC",
            )

    def sections(self) -> list[Section]:
        """What the page shows: machine, traffic and each result, then the runs."""
        from toposeat.report import Section  # noqa: PLC0415

        complete = self.machine is not None and self.traffic is not None
        results = self.mapping_results()
        several = len(results) > 1  # then the names of files tell them apart
        sections = [
            Section(
                self.topology_of(result), self.traffic, result, title=path.name if several else ""
            )
            for (path, _), result in zip((*self.results, *self.placements), results, strict=False)
        ]
        if not sections and (self.topology is not None or self.traffic is not None):
            sections.append(Section(self.topology, self.traffic))
        if not complete:
            sections += [Section(placement=placement) for _, placement in self.placements]
        return sections + [Section(run=record) for record in self.runs]


def _is_schema(head: str, schema: str) -> bool:
    """Whether a file has this schema, in any version: its parser refuses the other ones."""
    return f'"{schema.rpartition("/")[0]}/' in head
