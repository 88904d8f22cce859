"""`toposeat report`: show any toposeat file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toposeat import report
from toposeat.cli.command import (
    Command,
    add_network_options,
    add_output_option,
    add_topology_option,
    print_json,
    style_of,
    tell,
    write_result,
)
from toposeat.cli.output import output_form, page_text, today
from toposeat.cli.report_files import ReportFiles
from toposeat.errors import UsageError

if TYPE_CHECKING:
    from toposeat.report import TextStyle


_FORMS = ("text", "json", "html", "svg")
_MATRICES = ("csv", "npy")


class ReportCommand(Command):
    """Show topologies, profiles, placements and runs."""

    name = "report"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""
        parser.add_argument(
            "files",
            metavar="F",
            nargs="*",
            type=Path,
            help="topologies, a profile, placements, runs",
        )
        add_topology_option(parser, required=False)
        add_network_options(parser)
        parser.add_argument(
            "--traffic", metavar="F", help="a profile, matrix or pattern: alone or of placements"
        )
        parser.add_argument(
            "--format",
            choices=_FORMS,
            help="default: what the name of -o ends in, else text; -o F.csv and F.npy are the"
            " traffic as a dense matrix of bytes",
        )
        add_output_option(parser, "the report")

    def run(self, args: argparse.Namespace) -> int:
        """Recognise the files, render them, write or print."""
        from toposeat.model.files import check_writable, write_atomically  # noqa: PLC0415

        if not args.files and args.traffic is None:
            raise UsageError("nothing to show", hint="name a file, or --traffic F")
        if args.output is not None:
            check_writable(args.output, overwrite=args.force)
        stated = "json" if args.json else args.format
        form = output_form(args.output, stated, (*_FORMS, *_MATRICES)) or "text"
        found = ReportFiles.load(args)
        if form == "json":
            document = _document(found)
            if args.output is None:
                print_json(document)
                return 0
            import json  # noqa: PLC0415

            content: str | bytes = json.dumps(document, allow_nan=False) + "\n"
        else:
            content = _render(found, form, _style_for(args.output), args)
        if args.output is None:
            write_result(content)
        else:
            write_atomically(args.output, content, overwrite=args.force)
            tell(f"Wrote {args.output}")
        return 0


def _style_for(output: Path | None) -> TextStyle:
    from toposeat.report import TextStyle  # noqa: PLC0415

    return style_of(sys.stdout) if output is None else TextStyle()


def _document(found: ReportFiles) -> Any:
    from toposeat.model.placement_file import PLACEMENT_SCHEMA  # noqa: PLC0415
    from toposeat.model.result_file import RUN_SCHEMA  # noqa: PLC0415
    from toposeat.topology.topology_file import topology_document  # noqa: PLC0415

    documents: list[Any] = []
    if found.topology is not None:
        members = topology_document(found.topology)
        documents.append(report.document(members["schema"], members))
    if found.traffic is not None:
        documents.append(report.profile_json(found.traffic))
    documents += [report.document(PLACEMENT_SCHEMA, each) for _, each in found.placements]
    results = found.mapping_results()
    if found.traffic is not None:
        documents += [
            report.mapping_json(each, found.topology_of(each), found.traffic) for each in results
        ]
    documents += [report.document(RUN_SCHEMA, record) for record in found.runs]
    if len(documents) == 1:
        return documents[0]
    return {"schema": "toposeat/report/1", "parts": documents}


def _render(
    found: ReportFiles, form: str, style: TextStyle, args: argparse.Namespace
) -> str | bytes:
    """Pages and drawings are written as UTF-8, which they declare, whatever the terminal uses."""
    if form in {"html", "svg"}:
        found.read_headers(args)
    if form == "html":
        return page_text(found.sections(), title="toposeat report").encode("utf-8", "replace")
    if form == "svg":
        return _drawing(found).encode("utf-8", "replace")
    return _text(found, style) if form == "text" else _matrix(found, form)


def _drawing(found: ReportFiles) -> str:
    results = found.mapping_results()
    if results and found.traffic is not None:
        on = found.topology_of(results[0])
        return report.mapping_svg(results[0], on, found.traffic, created=today())
    if found.topology is not None:
        return report.topology_svg(found.topology, created=today())
    if found.traffic is not None:
        return report.traffic_svg(found.traffic)
    raise UsageError("SVG shows a machine or a profile", hint="add the file of one")


def _matrix(found: ReportFiles, form: str) -> bytes:
    if found.traffic is None:
        raise UsageError("a matrix is that of a traffic", hint="name a profile")
    return report.matrix_file(found.traffic, form)


def _text(found: ReportFiles, style: TextStyle) -> str:
    parts = []
    if found.topology is not None:
        parts.append(report.render_topology_text(found.topology, style))
    if found.traffic is not None:
        parts.append(report.render_traffic_text(found.traffic, style))
    is_network = found.machine is not None and found.machine.shape is not None
    if not is_network or found.traffic is None:  # else levels and links say more
        parts += [
            report.render_placement_text(placement, style) for _, placement in found.placements
        ]
    results = found.mapping_results()
    if found.traffic is not None:
        parts += [
            report.render_mapping_text(
                each, found.topology_of(each), found.traffic, style, verbose=True
            )
            for each in results
        ]
    parts += [report.render_run_text(record, style) for record in found.runs]
    return "\n".join(parts)
