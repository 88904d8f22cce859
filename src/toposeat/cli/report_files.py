"""What the files of `toposeat report` hold, and what follows from them together."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toposeat.cli.command import environment_of, tell
from toposeat.cli.machine import is_network, machine_of, network_of, take_from_headers
from toposeat.errors import InputError, ToposeatError, UsageError

if TYPE_CHECKING:
    from toposeat.mapping import Machine
    from toposeat.model.evaluation import MappingResult
    from toposeat.model.network import Network
    from toposeat.model.placement import Placement
    from toposeat.model.topology import Topology
    from toposeat.model.traffic import Traffic
    from toposeat.report import Section


class ReportFiles:
    """What the command line names: nouns in files, a machine, a traffic."""

    def __init__(self) -> None:
        self.names_machine = self.names_traffic = False  # else the headers of placements do
        self.network: Network | None = None  # of hosts, where nothing can be predicted on it
        self.source: str | None = ""  # of the machine, as -t takes it; None is this one
        self.machine: Machine | None = None
        self.traffic: Traffic | None = None
        self.placements: list[tuple[Path, Placement]] = []
        self.runs: list[Any] = []
        self.results: list[tuple[Path, MappingResult]] = []
        self._shown: list[MappingResult] | None = None

    @staticmethod
    def load(args: argparse.Namespace) -> ReportFiles:
        """From the options of `report`."""
        found = ReportFiles()
        for path in args.files:
            found.add(path)
        found._read_options(args)
        found.names_machine = found.machine is not None
        found.names_traffic = found.traffic is not None
        return found

    @property
    def is_alone(self) -> bool:
        """Whether placements are all that is named."""
        return not (self.names_machine or self.names_traffic)

    def _read_options(self, args: argparse.Namespace) -> None:
        from toposeat import profile  # noqa: PLC0415

        if args.traffic is not None:
            self._take(profile.read_traffic(args.traffic))
        if (args.topology, args.node, args.hosts) != (None, None, None):
            self.machine, self.source = machine_of(args), args.topology

    def _take(self, traffic: Traffic) -> None:
        if self.traffic is not None:
            raise UsageError(
                "report shows one traffic", hint="one at a time: toposeat report F --json"
            )
        self.traffic = traffic

    def read_headers(self, args: argparse.Namespace) -> None:
        """The machine and the traffic of placements, where they are not given and can be read."""
        from toposeat import profile  # noqa: PLC0415

        machine, traffic = self.machine, self.traffic
        if not self.placements or (machine is not None and traffic is not None):
            return
        given = argparse.Namespace(**vars(args))
        given.traffic = None if traffic is None else traffic.origin
        given.topology = None if machine is None else machine.name
        paths, placements = zip(*self.placements, strict=True)
        try:
            take_from_headers(given, paths, [each.metadata for each in placements])
            if machine is None:
                self.machine, self.source = machine_of(given), given.topology
            if traffic is None:
                self._take(profile.read_traffic(given.traffic))
            self.mapping_results()
        except ToposeatError as error:
            if traffic is not None:
                self.machine = machine
            self.traffic = traffic
            if self.machine is not None and self.machine.shape is not None and is_network(given):
                self.network = network_of(given)
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
        if self.machine is None or not result.is_listed:
            return None
        return self.machine.listed(wanted=True)

    @property
    def topology(self) -> Topology | None:
        """The machine where it is to be shown itself: one node, or hosts that a file lists."""
        is_network = self.machine is None or self.machine.shape is not None
        return None if is_network else self.listed

    def mapping_results(self) -> list[MappingResult]:
        """Results to show: saved ones, and placements as they were answered, on their machine."""
        from toposeat import pipeline  # noqa: PLC0415

        if self._shown is not None:
            return self._shown
        for path, result in self.results:
            self._check_result(path, result)
        results = [result for _, result in self.results]
        if self.machine is not None and self.traffic is not None:
            around = environment_of(self.source)
            results += [
                pipeline.result_of_saved(self.machine, placement, self.traffic, path, around)
                for path, placement in self.placements
            ]
        self._shown = results
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
        from toposeat import mapping  # noqa: PLC0415
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
        if self.network is not None:
            stages, assumed = mapping.stages_of_network(self.network)
            sections.append(Section(network=self.network, stages=stages, text="; ".join(assumed)))
        if not complete:
            sections += [Section(placement=placement) for _, placement in self.placements]
        return sections + [Section(run=record) for record in self.runs]


def _is_schema(head: str, schema: str) -> bool:
    """Whether a file has this schema, in any version: its parser refuses the other ones."""
    return f'"{schema.rpartition("/")[0]}/' in head
