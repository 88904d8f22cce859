"""The page itself: what each section shows, for the templates beside this file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

from toposeat.installed import VERSION
from toposeat.model.evaluation import MappingResult
from toposeat.model.placement import Placement
from toposeat.model.run_record import RunRecord
from toposeat.model.scale_result import ScaleResult
from toposeat.model.shell_words import shell_line
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic
from toposeat.report.html import figures, tables
from toposeat.report.html.figures import View
from toposeat.report.html.profile_parts import profile_parts
from toposeat.report.html.scale_parts import machine_words, scale_parts
from toposeat.report.html.templates import asset, render
from toposeat.report.svg.element import Markup, style_sheet
from toposeat.report.units import format_seconds, plural
from toposeat.report.view.machine import assumed_lines, remarks, topology_sentence
from toposeat.report.view.mapping import (
    certificate_words,
    is_default_kept,
    line_to_copy,
    outcome_word,
    range_words,
    run_share_words,
    verdict_words,
)
from toposeat.report.view.runs import verification_words
from toposeat.report.view.traffic import traffic_sentence

Facts = list[tuple[str, str]]  # a name and what it is


@dataclass(frozen=True)
class Section:
    """One machine or job on the page. Everything is optional, but something must be there.

    Attributes:
        topology: the machine; needed for drawings and for `mapping`.
        traffic: bytes between ranks; needed for `mapping`.
        mapping: predictions before and after.
        placement: seats with CPU sets, memory nodes and NICs.
        run: a run that was measured.
        scale: predictions before and after on a large machine, which has no drawing.
        title: heading; the topology's or traffic's name if empty.
        text: a sentence or two under the heading.
        commands: how to go on, one command each.
    """

    topology: Topology | None = None
    traffic: Traffic | None = None
    mapping: MappingResult | None = None
    _: KW_ONLY
    placement: Placement | None = None
    run: RunRecord | None = None
    scale: ScaleResult | None = None
    title: str = ""
    text: str = ""
    commands: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.mapping is not None and (self.topology is None or self.traffic is None):
            raise ValueError("a mapping is shown with its topology and its traffic")
        if self.scale is not None and self.traffic is None:
            raise ValueError("a placement on a large machine is shown with its traffic")

    @property
    def heading(self) -> str:
        """What the section is called."""
        if self.title:
            return self.title
        if self.topology is not None:
            return self.topology.name
        if self.scale is not None:
            return self.scale.shape
        if self.traffic is not None:
            return self.traffic.origin
        return "placement" if self.placement is not None else "run"


def html_page(
    sections: Sequence[Section],
    *,
    title: str = "toposeat report",
    subtitle: str = "",
    created: str = "",
    commands: Sequence[str] = (),
) -> str:
    """One self-contained page.

    Args:
        sections: what to show, in order.
        title: the page's heading.
        subtitle: what was run and where, one sentence.
        created: date and time as text; the page does not read the clock.
        commands: how to go on from here, for the whole page.
    """
    return render(
        "page.html",
        sections=[_section(section, f"s{number}") for number, section in enumerate(sections, 1)],
        title=title,
        subtitle=subtitle,
        when="  ·  ".join(part for part in (created, f"toposeat {VERSION}") if part),
        commands=commands,
        style=Markup(style_sheet() + asset("page.css")),
        script=Markup(asset("page.js")),
    )


def _section(section: Section, key: str) -> View:
    topology, traffic, mapping = section.topology, section.traffic, section.mapping
    view: View = {
        "key": key,
        "heading": section.heading,
        "text": section.text,
        "facts": _facts(section),
        "commands": section.commands,
        "verdict": "" if mapping is None else verdict_words(mapping),
        "mapping": None,
        "machine": None,
        "scale": None if section.scale is None else scale_parts(section.scale),
        "traffic": None,
        "run": None if section.run is None else _run(section.run),
        "placement": None,
        "provenance": None,
        "doubts": () if traffic is None else traffic.report,
    }
    if mapping is not None and topology is not None and traffic is not None:
        view["mapping"] = _mapping(mapping, topology, traffic)
    elif topology is not None:
        view["machine"] = figures.machine_plain(topology)
    if traffic is not None:
        heat = figures.heat_maps(mapping, topology, traffic)
        view["traffic"] = {**profile_parts(traffic), "heat": heat}
    if section.placement is not None:
        view["placement"] = tables.placement_table(section.placement)
    if topology is not None:
        view["provenance"] = _provenance(topology, traffic)
    return view


def _facts(section: Section) -> Facts:
    rows: Facts = []
    if section.topology is not None:
        rows.append(("Machine", topology_sentence(section.topology)))
        if section.topology.description:
            rows.append(("", section.topology.description))
    if section.scale is not None:
        rows.append(("Machine", machine_words(section.scale)))
    if section.traffic is not None:
        rows.append(("Traffic", traffic_sentence(section.traffic)))
        if section.traffic.metadata.get("pattern"):
            rows.append(("Pattern", section.traffic.metadata["pattern"]))
    mapping = section.mapping
    if mapping is not None:
        how = f"objective {mapping.objective}, metric {mapping.metric}, solver {mapping.solver}"
        rows.append(("Mapping", f"{how}, {format_seconds(mapping.solve_seconds)}"))
    return rows


def _mapping(result: MappingResult, topology: Topology, traffic: Traffic) -> View:
    share = run_share_words(result, traffic)
    certificate = certificate_words(result.certificate, result.metric)
    range_of_gain = range_words(result.premises)
    doubt = f"Range: {range_of_gain}" if range_of_gain else None
    line = line_to_copy(result, topology)
    return {
        "outcome": "kept" if is_default_kept(result) else outcome_word(result),
        "verdict": verdict_words(result),
        "remarks": [certificate, *filter(None, [doubt, share]), *result.notes],
        "lines": [line] if line else [],
        "stacked": len(topology.hosts) > 1,
        "before_after": tables.before_after(result),
        "busiest": tables.busiest_sentence(result, topology),
        "seats": tables.seats(result, topology),
        "machine": figures.machine_views(result, topology),
        "congestion": figures.congestion_bars(result, topology),
    }


def _run(run: RunRecord) -> View:
    repeats = f" over {plural(run.repeats, 'run')}" if run.repeats > 1 else ""
    return {
        "facts": [
            ("Command", shell_line(run.command)),
            ("Started as", shell_line(run.launched)),
            ("Where", f"{run.host}, {run.started_at}, visibility {run.visibility}"),
            (
                "Measured",
                f"wall time {format_seconds(run.wall_s)}{repeats}, exit code {run.exit_code}",
            ),
            ("Verified", verification_words(run).removeprefix("Verification: ")),
        ],
        "table": tables.verification(run) if run.seats else None,
        "notes": run.notes,
    }


def _provenance(topology: Topology, traffic: Traffic | None) -> View:
    doubts = [*topology.report, *(traffic.report if traffic is not None else ())]
    listed = (
        ("Doubts", doubts),
        ("Assumed", assumed_lines(topology)),
        ("Sources", topology.sources),
        ("Remarks", remarks(topology)),
    )
    return {
        "origin": f"Topology read from: {topology.origin}.",
        "counts": tables.count_sentence(topology),
        "lists": [(title, lines) for title, lines in listed if lines],
        "devices": tables.devices(topology),
        "links": tables.link_list(topology),
    }
