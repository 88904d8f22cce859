"""`toposeat report`: show any toposeat file."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
    from toposeat.model.evaluation import MappingResult
    from toposeat.report import TextStyle


_FORMS = ("text", "json", "html", "svg")
_MATRICES = ("csv", "npy")
_MOST_SEATS = 64  # of a placement on a network that stand behind its answer


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
            "--traffic",
            metavar="F",
            help="a profile, matrix or pattern: by itself, or that of the placements",
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
        if form != "json" or len(args.files) > 1 or args.traffic is not None:
            found.read_headers(args)
        if form == "json":
            documents = [view.document() for view in _views(found)]
            several = {"schema": "toposeat/report/1", "parts": documents}
            document = documents[0] if len(documents) == 1 else several
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


def _style_for(output: Path | None) -> TextStyle:
    from toposeat.report import TextStyle  # noqa: PLC0415

    return style_of(sys.stdout) if output is None else TextStyle()


class _View(NamedTuple):
    """A noun as text, and as its document."""

    text: Callable[[TextStyle], str] | None
    document: Callable[[], Any]


def _views(found: ReportFiles) -> Iterator[_View]:
    """What the files hold, in the order in which it is shown."""
    from toposeat.model.placement_file import PLACEMENT_SCHEMA  # noqa: PLC0415
    from toposeat.model.result_file import RUN_SCHEMA  # noqa: PLC0415
    from toposeat.topology import topology_document  # noqa: PLC0415

    topology, traffic = found.topology, found.traffic
    if topology is not None and found.names_machine:
        members = topology_document(topology)
        document = partial(report.document, members["schema"], members)
        yield _View(partial(report.render_topology_text, topology), document)
    if traffic is not None and found.names_traffic:
        yield _View(
            partial(report.render_traffic_text, traffic), partial(report.profile_json, traffic)
        )
    results = found.mapping_results()
    count = len(found.results)
    for result in results[:count]:
        yield _of_result(found, result)
    is_network = found.machine is not None and found.machine.shape is not None
    for (path, each), answer in zip_longest(found.placements, results[count:]):
        name = path.name if len(found.placements) > 1 else ""
        if answer is not None:
            yield _of_result(found, answer, name)
        text = partial(report.render_placement_text, each, answered=answer is not None)
        document = partial(report.document, PLACEMENT_SCHEMA, each)
        # On a network levels and links say more.
        is_said = answer is not None and is_network and each.ranks > _MOST_SEATS
        yield _View(None if is_said else text if answer else _titled(text, name), document)
    for record in found.runs:
        document = partial(report.document, RUN_SCHEMA, record)
        yield _View(partial(report.render_run_text, record), document)


def _of_result(found: ReportFiles, result: MappingResult, name: str = "") -> _View:
    """A mapping, or a placement as it was answered, below the name of its file if there is one."""
    assert found.traffic is not None, "a result is shown with its traffic"
    nouns = (result, found.topology_of(result), found.traffic)
    text = partial(report.render_mapping_text, *nouns, verbose=not found.is_alone)
    return _View(_titled(text, name), partial(report.mapping_json, *nouns))


def _titled(text: Callable[[TextStyle], str], name: str) -> Callable[[TextStyle], str]:
    return lambda style: f"{name}\n{text(style)}" if name else text(style)


def _render(found: ReportFiles, form: str, style: TextStyle) -> str | bytes:
    """Pages and drawings are written as UTF-8, which they declare, whatever the terminal uses."""
    if form == "html":
        return page_text(found.sections(), title="toposeat report").encode("utf-8", "replace")
    if form == "svg":
        return _drawing(found).encode("utf-8", "replace")
    if form == "text":
        return "\n".join(view.text(style) for view in _views(found) if view.text is not None)
    return _matrix(found, form)


def _drawing(found: ReportFiles) -> str:
    results = found.mapping_results()
    if results and found.traffic is not None:
        on = found.topology_of(results[0])
        return report.mapping_svg(results[0], on, found.traffic, created=today())
    if found.topology is not None:
        return report.topology_svg(found.topology, created=today())
    if found.network is not None:
        from toposeat import mapping  # noqa: PLC0415

        stages, assumed = mapping.stages_of_network(found.network)
        return report.network_file(found.network, stages, [*assumed], created=today())
    if found.traffic is not None:
        return report.traffic_svg(found.traffic)
    raise UsageError("SVG shows a machine or a profile", hint="add the file of one")


def _matrix(found: ReportFiles, form: str) -> bytes:
    if found.traffic is None:
        raise UsageError("a matrix is that of a traffic", hint="name a profile")
    return report.matrix_file(found.traffic, form)
