"""`toposeat report`: show any toposeat file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toposeat.cli.command import (
    Command,
    add_output_option,
    add_topology_option,
    print_json,
    style_of,
    tell,
    write_result,
)
from toposeat.cli.page import page_text
from toposeat.errors import InputError, UsageError

if TYPE_CHECKING:
    from toposeat.model.evaluation import MappingResult
    from toposeat.model.placement import Placement
    from toposeat.model.topology import Topology
    from toposeat.model.traffic import Traffic
    from toposeat.report import Section, TextStyle


class ReportCommand(Command):
    """Show topologies, profiles, placements and runs; together they make one page."""

    name = "report"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        parser.add_argument("files", metavar="F", nargs="+", type=Path)
        add_topology_option(parser, required=False)
        parser.add_argument(
            "--traffic", metavar="F", help="a profile, CSV matrix or pattern for a placement"
        )
        parser.add_argument(
            "--format",
            choices=("text", "json", "html", "svg", "csv", "treematch", "npy"),
            default="text",
            help="csv, treematch, npy: the traffic as a dense matrix of bytes; default: text",
        )
        add_output_option(parser, "the report")

    def run(self, args: argparse.Namespace) -> int:
        """Recognise the files, render them, write or print."""
        from toposeat.model.files import check_writable, write_atomically  # noqa: PLC0415

        if args.output is not None:
            check_writable(args.output, overwrite=args.force)
        found = _Files.load(args.files, args.topology, args.traffic)
        form = "json" if args.json else args.format
        if form == "json":
            document = _document(found)
            if args.output is None:
                print_json(document)
                return 0
            import json  # noqa: PLC0415

            content: str | bytes = json.dumps(document, allow_nan=False) + "\n"
        else:
            content = _render(found, form, _style_for(args.output))
        if args.output is None:
            write_result(content)
        else:
            write_atomically(args.output, content, overwrite=args.force)
            tell(f"Wrote {args.output}")
        return 0


class _Files:
    """The nouns found in the files of the command line."""

    def __init__(self) -> None:
        self.topology: Topology | None = None
        self.traffic: Traffic | None = None
        self.placements: list[tuple[Path, Placement]] = []
        self.runs: list[Any] = []
        self.results: list[tuple[Path, MappingResult]] = []

    @staticmethod
    def load(paths: list[Path], topology_source: str | None, traffic: str | None) -> _Files:
        from toposeat import profile, topology  # noqa: PLC0415

        found = _Files()
        for path in paths:
            found.add(path)
        if topology_source is not None:
            found.topology = topology.read_topology(topology_source)
        if traffic is not None:
            found.traffic = profile.read_traffic(traffic)
        return found

    def add(self, path: Path) -> None:
        from toposeat import profile, topology  # noqa: PLC0415
        from toposeat.model import files, placement_file, result_file  # noqa: PLC0415

        if profile.holds_traffic(path):
            self.traffic = profile.read_traffic(path)
            return
        text = files.read_text(path)  # once: it may be a pipe
        head = text[:4096]
        if result_file.MAPPING_SCHEMA in head:
            self.results.append((path, result_file.parse_mapping(text, path)))
        elif result_file.RUN_SCHEMA in head:
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

    def mapping_results(self) -> list[Any]:
        """Results to show: saved ones, and given placements assessed on the given machine."""
        from toposeat import pipeline  # noqa: PLC0415

        for path, result in self.results:
            self._check_result(path, result)
        results = [result for _, result in self.results]
        if self.topology is not None and self.traffic is not None:
            for path, placement in self.placements:
                devices = pipeline.device_positions(placement, self.topology, self.traffic, path)
                results.append(pipeline.assess(self.topology, self.traffic, devices))
        return results

    def _check_result(self, path: Path, result: MappingResult) -> None:
        """A saved result knows devices and links by number only: refuse another machine's."""
        if self.topology is None or self.traffic is None:
            raise UsageError(
                f"{path}: a mapping is shown on its machine, with its traffic",
                hint="add -t SRC and --traffic F, those that were given to `toposeat map`",
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
                f"a mapping on another machine than {self.topology.name}",
                path=path,
                hint="give the machine that was mapped on with -t SRC",
            )

    def sections(self) -> list[Section]:
        """What the page shows: machine, traffic and each result, then the runs."""
        from toposeat.report import Section  # noqa: PLC0415

        complete = self.topology is not None and self.traffic is not None
        results = self.mapping_results()
        sections = [Section(self.topology, self.traffic, result) for result in results]
        if not results and (self.topology is not None or self.traffic is not None):
            sections.append(Section(self.topology, self.traffic))
        if not complete:
            sections += [Section(placement=placement) for _, placement in self.placements]
        return sections + [Section(run=record) for record in self.runs]


def _style_for(output: Path | None) -> TextStyle:
    from toposeat.report import TextStyle  # noqa: PLC0415

    return style_of(sys.stdout) if output is None else TextStyle()


def _document(found: _Files) -> Any:
    from toposeat import report  # noqa: PLC0415

    documents: list[Any] = []
    if found.topology is not None:
        documents.append(report.topology_json(found.topology))
    if found.traffic is not None:
        documents.append(report.profile_json(found.traffic))
    documents += [report.placement_json(placement) for _, placement in found.placements]
    results = found.mapping_results()
    if found.topology is not None and found.traffic is not None:
        documents += [
            report.mapping_json(result, found.topology, found.traffic) for result in results
        ]
    documents += [report.run_json(record) for record in found.runs]
    if len(documents) == 1:
        return documents[0]
    return {"schema": "toposeat/report/1", "parts": documents}


def _render(found: _Files, form: str, style: TextStyle) -> str | bytes:
    """Pages and drawings say themselves that they are UTF-8, whatever the terminal: as bytes."""
    if form == "html":
        return page_text(found.sections(), title="toposeat report").encode("utf-8", "replace")
    if form == "svg":
        return _drawing(found).encode("utf-8", "replace")
    return _text(found, style) if form == "text" else _matrix(found, form)


def _drawing(found: _Files) -> str:
    from toposeat import report  # noqa: PLC0415

    if found.topology is not None:
        return report.topology_svg(found.topology)
    if found.traffic is not None:
        return report.traffic_svg(found.traffic)
    raise UsageError("an svg shows a machine or a profile", hint="add the file of one")


def _matrix(found: _Files, form: str) -> bytes:
    from toposeat import report  # noqa: PLC0415

    if found.traffic is None:
        raise UsageError("a matrix is written of a traffic", hint="name a profile")
    return report.matrix_file(found.traffic, form)


def _text(found: _Files, style: TextStyle) -> str:
    from toposeat import report  # noqa: PLC0415

    parts = []
    if found.topology is not None:
        parts.append(report.render_topology_text(found.topology, style))
    if found.traffic is not None:
        parts.append(report.render_traffic_text(found.traffic, style))
    parts += [report.render_placement_text(placement, style) for _, placement in found.placements]
    results = found.mapping_results()
    if found.topology is not None and found.traffic is not None:
        parts += [
            report.render_mapping_text(result, found.topology, found.traffic, style)
            for result in results
        ]
    parts += [report.render_run_text(record, style) for record in found.runs]
    return "\n".join(parts)
