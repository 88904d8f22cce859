"""What the files of `toposeat report` hold, and what follows from them together."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toposeat.cli.command import tell
from toposeat.cli.large_machine import is_large, large_machine
from toposeat.cli.placement_header import take_from_headers
from toposeat.errors import InputError, UsageError

if TYPE_CHECKING:
    from toposeat.mapping import Shape
    from toposeat.model.evaluation import MappingResult
    from toposeat.model.placement import Placement
    from toposeat.model.scale_result import ScaleResult
    from toposeat.model.topology import Topology
    from toposeat.model.traffic import Traffic
    from toposeat.report import Section


class ReportFiles:
    """What the command line names: nouns in files, a machine, a traffic."""

    def __init__(self) -> None:
        self.topology: Topology | None = None
        self.shape: Shape | None = None
        self.traffic: Traffic | None = None
        self.placements: list[tuple[Path, Placement]] = []
        self.runs: list[Any] = []
        self.results: list[tuple[Path, MappingResult]] = []
        self.scales: list[tuple[Path, ScaleResult]] = []

    @staticmethod
    def load(args: argparse.Namespace) -> ReportFiles:
        """From the options of `report`."""
        found = ReportFiles()
        for path in args.files:
            found.add(path)
        found._read_options(args)
        return found

    def _read_options(self, args: argparse.Namespace) -> None:
        from toposeat import profile, topology  # noqa: PLC0415

        if args.traffic is not None:
            self.traffic = profile.read_traffic(args.traffic)
        if is_large(args):
            self.shape = large_machine(args)
        elif args.topology is not None:
            self.topology = topology.read_topology(args.topology)

    def read_headers(self, args: argparse.Namespace) -> None:
        """The machine and the traffic of placements that come alone, where both can be read."""
        alone = self.topology is None and self.traffic is None and self.shape is None
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
        """Take what one file holds, by its first bytes.

        Raises:
            InputError: an empty file, a report page, or a file of no known form.
        """
        from toposeat import profile, topology  # noqa: PLC0415
        from toposeat.model import files, placement_file, result_file, scale_file  # noqa: PLC0415

        if profile.holds_traffic(path):
            self.traffic = profile.read_traffic(path)
            return
        text = files.read_text(path)  # once: it may be a pipe
        head = text[:4096]
        if _is_schema(head, result_file.MAPPING_SCHEMA):
            self.results.append((path, result_file.parse_mapping(text, path)))
        elif _is_schema(head, scale_file.SCALE_SCHEMA):
            self.scales.append((path, scale_file.parse_scale(text, path)))
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
            self.topology = topology.parse_topology_text(text, path)

    def scale_results(self) -> list[ScaleResult]:
        """Saved mappings of large jobs, and given placements on a large machine."""
        from toposeat import mapping, pipeline  # noqa: PLC0415

        for path, result in self.scales:
            self._check_scale(path, result)
        saved = [result for _, result in self.scales]
        if self.shape is None or self.traffic is None:
            return saved
        evaluator = mapping.SlotEvaluator(self.shape, self.traffic)
        return saved + [
            pipeline.assess_slots(
                self.shape,
                evaluator,
                pipeline.slots_of_placement(placement, self.shape, self.traffic, path),
            )
            for path, placement in self.placements
        ]

    def mapping_results(self) -> list[Any]:
        """Results to show: saved ones, and given placements assessed on the given machine."""
        from toposeat import evaluation  # noqa: PLC0415

        for path, result in self.results:
            self._check_result(path, result)
        results = [result for _, result in self.results]
        if self.topology is not None and self.traffic is not None:
            for path, placement in self.placements:
                ranks = self.traffic.ranks
                devices = evaluation.device_positions(placement, self.topology, ranks, path)
                results.append(evaluation.assess(self.topology, self.traffic, devices))
        return results

    def _check_scale(self, path: Path, result: ScaleResult) -> None:
        """The saved mapping of a large job with its traffic; the machine is in the mapping."""
        if self.traffic is None:
            raise UsageError(
                f"{path}: a mapping is shown with its traffic",
                hint="add --traffic F as it was given to `toposeat map`",
            )
        if result.ranks != self.traffic.ranks:
            raise InputError(
                f"a mapping of {result.ranks} ranks; the traffic has {self.traffic.ranks}",
                path=path,
                hint="give the traffic that was mapped",
            )

    def _check_result(self, path: Path, result: MappingResult) -> None:
        """A saved result knows devices and links by number only: refuse another machine's."""
        if self.topology is None or self.traffic is None:
            raise UsageError(
                f"{path}: a mapping is shown on its machine, with its traffic",
                hint="add -t SRC and --traffic F as they were given to `toposeat map`",
            )
        if len(result.device_of_rank) != self.traffic.ranks:
            raise InputError(
                f"a mapping of {len(result.device_of_rank)} ranks; the traffic has "
                f"{self.traffic.ranks}",
                path=path,
                hint="give the traffic that was mapped",
            )
        links = {link.id for link in self.topology.links}
        used = {load.link for load in (*result.default.links, *result.placed.links)}
        inside = range(len(self.topology.devices))
        if not used <= links or any(at not in inside for at in result.device_of_rank):
            raise InputError(
                f"this mapping was made for another machine than {self.topology.name}",
                path=path,
                hint="give the machine of the mapping with -t SRC",
            )

    def sections(self) -> list[Section]:
        """What the page shows: machine, traffic and each result, then the runs."""
        from toposeat.report import Section  # noqa: PLC0415

        machine = self.topology if self.topology is not None else self.shape
        complete = machine is not None and self.traffic is not None
        results, scales = self.mapping_results(), self.scale_results()
        several = len(results) + len(scales) > 1  # then the names of files tell them apart
        sections = [
            Section(self.topology, self.traffic, result, title=path.name if several else "")
            for (path, _), result in zip((*self.results, *self.placements), results, strict=False)
        ]
        sections += [
            Section(traffic=self.traffic, scale=scale, title=path.name if several else "")
            for (path, _), scale in zip((*self.scales, *self.placements), scales, strict=False)
        ]
        if not sections and (self.topology is not None or self.traffic is not None):
            sections.append(Section(self.topology, self.traffic))
        if not complete:
            sections += [Section(placement=placement) for _, placement in self.placements]
        return sections + [Section(run=record) for record in self.runs]


def _is_schema(head: str, schema: str) -> bool:
    """Whether a file has this schema, in any version: its parser refuses the other ones."""
    return f'"{schema.rpartition("/")[0]}/' in head
