"""The page itself: what each section shows, for the templates beside this file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cache
from importlib.resources import files
from itertools import chain, groupby
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined

from toposeat.installed import VERSION
from toposeat.model.evaluation import HostGroup, MappingResult
from toposeat.model.network import Network
from toposeat.model.placement import VERDICT_KEY, Placement
from toposeat.model.plural import plural
from toposeat.model.runs import RunRecord
from toposeat.model.shell_words import shell_line
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic
from toposeat.report.parts import Cell, Fact, Part, facts, titled_list
from toposeat.report.svg.charts import heat_pictures
from toposeat.report.svg.element import Markup, Picture, number, style_sheet
from toposeat.report.svg.machine import (
    NUMBERS,
    congestion_samples,
    machine_key,
    machine_svg,
    mapping_pictures,
)
from toposeat.report.svg.network import (
    PICTURE_WORDS,
    bare_network_svg,
    network_pictures,
    shade,
    top_seconds,
)
from toposeat.report.units import clean
from toposeat.report.view.explanation import explanation_parts
from toposeat.report.view.loads import (
    busy_link_table,
    level_bars,
    level_table,
    link_bars,
    link_table,
    placements_of,
    worst_seconds,
)
from toposeat.report.view.mapping import (
    WHOLE_RUN,
    before_after,
    candidate_table,
    host_table,
    line_to_copy,
    mapping_reasons,
    outcome_word,
    reach_words,
    seat_rows,
    verdict_words,
)
from toposeat.report.view.network import network_parts
from toposeat.report.view.placement import placement_facts, placement_table
from toposeat.report.view.runs import run_parts
from toposeat.report.view.topology import (
    link_list,
    topology_overview,
    topology_provenance,
    topology_tables,
)
from toposeat.report.view.traffic import (
    buffer_words,
    crash_words,
    profile_tables,
    run_verdict,
    size_table,
    traffic_summary,
)

View = dict[str, Any]  # what a template shows

_MOST_PAIRS = 8
_MOST_HOSTS = 256
_MOST_LINKS = 10
_FOLDS = {
    "matrix": "best paths between devices",
    "joined": "device links",
    "shared": "links that devices share",
    "kinds": "kinds of links",
    "devices": "devices",
    "nics": "NICs",
}


@dataclass(frozen=True)
class Section:
    """One machine or job on the page. Everything is optional, but something must be there.

    Attributes:
        topology: the machine; needed for `mapping` unless that is of a network.
        traffic: bytes between ranks; needed for `mapping`.
        mapping: predictions before and after.
        placement: seats with CPU sets, memory nodes and NICs.
        run: a run that was measured.
        network: hosts on switches, without a placement.
        stages: groups of its hosts, the smallest first, as they are drawn.
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
    network: Network | None = None
    stages: tuple[tuple[HostGroup, ...], ...] = ()
    title: str = ""
    text: str = ""
    commands: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.mapping is not None:
            is_known = self.topology is not None or bool(self.mapping.placed.levels)
            if self.traffic is None or not is_known:
                raise ValueError("a mapping is shown with its topology and its traffic")

    @property
    def heading(self) -> str:
        """What the section is called."""
        if self.title:
            return self.title
        named = self.topology or self.network
        if named is not None:
            return named.name
        if self.mapping is not None:
            return self.mapping.topology
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


def grouped(parts: Iterable[Part]) -> list[tuple[str, list[Part]]]:
    """Neighbours of one kind together, each with the kind's name; blank lines are left out."""
    shown = (part for part in parts if part != "")
    return [(kind, [*of]) for kind, of in groupby(shown, key=lambda part: type(part).__name__)]


def _section(section: Section, key: str) -> View:
    topology, traffic, mapping = section.topology, section.traffic, section.mapping
    view: View = {
        "key": key,
        "heading": section.heading,
        "text": section.text,
        "facts": grouped(_facts(section)),
        "commands": section.commands,
        "verdict": _verdict(section),
        "mapping": None,
        "machine": None,
        "traffic": None,
        "run": None,
        "placement": None if section.placement is None else placement_table(section.placement),
        "provenance": [],
        "folds": [],
    }
    if section.network is not None and section.stages:
        svg = bare_network_svg(section.network, section.stages)
        view["machine"] = {"key": [], "note": PICTURE_WORDS, "svg": svg}
    if mapping is not None and traffic is not None:
        view["mapping"] = _mapping(mapping, topology, traffic)
    elif topology is not None:
        svg = machine_svg(topology, label=f"machine {topology.name}")
        view["machine"] = {"key": machine_key(topology), "note": NUMBERS, "svg": svg}
    if traffic is not None:
        view["traffic"] = _traffic(traffic, mapping, topology)
    if section.run is not None:
        started = Fact("Started as", clean(shell_line(section.run.launched)))
        view["run"] = grouped([started, *run_parts(section.run)])
    if topology is not None:
        told = topology_provenance(topology)
        view["provenance"] = grouped(part for block in told for part in block)
        tables = topology_tables(topology)
        view["folds"] = [(_FOLDS[name], grouped(parts)) for name, parts in tables.items()]
        view["folds"].append(("links and their capacities", grouped([link_list(topology)])))
    return view


def _verdict(section: Section) -> str:
    """Of a mapping, or of a placement as it was saved."""
    if section.mapping is not None:
        return verdict_words(section.mapping)
    return "" if section.placement is None else section.placement.metadata.get(VERDICT_KEY, "")


def _facts(section: Section) -> list[Part]:
    parts: list[Part] = []
    if section.network is not None:
        parts += network_parts(section.network)
    if section.topology is not None:
        parts += topology_overview(section.topology)
    elif section.mapping is not None:
        hosts = f"{plural(len(section.mapping.hosts), 'host')} of"
        words = f"{hosts} {plural(section.mapping.slots_per_host, 'device')}"
        parts.append(Fact("Topology", f"{section.mapping.topology}: {words}"))
    if section.placement is not None and section.mapping is None:
        parts += placement_facts(section.placement)
    return parts + ([] if section.traffic is None else traffic_summary(section.traffic))


def _mapping(result: MappingResult, topology: Topology | None, traffic: Traffic) -> View:
    """Everything predicted of a placement beside the default, as far as the machine has it."""
    why = facts(**{WHOLE_RUN: reach_words(result, topology, traffic)})
    why += mapping_reasons(result, topology, traffic)
    if result.explanation is not None and topology is not None:
        why += explanation_parts(result.explanation, topology)
    line = None if topology is None else line_to_copy(result, topology)
    rows = {} if topology is None else seat_rows(result, topology)
    pictures, top = network_pictures(result), top_seconds
    if not pictures and topology is not None:
        pictures, top = mapping_pictures(result, topology), worst_seconds
    return {
        "outcome": "kept" if result.kept_default else outcome_word(result),
        "verdict": verdict_words(result),
        "why": grouped(why),
        "lines": [line] if line else [],
        "stacked": topology is not None and len(topology.hosts) > 1,
        "before_after": before_after(result),
        "seats": [[Cell(name) for name in rows], *zip(*rows.values(), strict=True)],
        "by_leaf": bool(result.stages),
        "machine": _machines(
            pictures,
            top(result),
            has_moved=not result.kept_default and not result.stages,
            last_rank=result.ranks - 1 if result.stages else 0,
        )
        if pictures
        else None,
        "is_listed": topology is not None,
        "congestion": None if topology is None else _congestion(result, topology),
        "network": _network(result) if result.placed.levels else None,
    }


def _network(result: MappingResult) -> View:
    """What levels and links carry, and which ranks each host has."""
    hosts, left = host_table(result, _MOST_HOSTS)
    return {
        "bars": level_bars(result),
        "levels": grouped(level_table([("default", result.default), ("placed", result.placed)])),
        "links": grouped(busy_link_table(placements_of(result), _MOST_LINKS)),
        "candidates": grouped(candidate_table(result)),
        "hosts": grouped([hosts]),
        "more_hosts": f"and {plural(left, 'more host')}" if left > 0 else "",
    }


def _traffic(traffic: Traffic, mapping: MappingResult | None, topology: Topology | None) -> View:
    tables = profile_tables(traffic, pairs=_MOST_PAIRS)
    shown = [tables.pop("totals"), size_table(traffic), tables.pop("time"), *tables.values()]
    note, legend, maps = heat_pictures(mapping, topology, traffic)
    verdict = run_verdict(traffic)
    said = (verdict, buffer_words(traffic)) if verdict else (crash_words(traffic),)
    return {
        "gain": " ".join(filter(None, said)),
        "heat": {"note": note, "legend": legend, "maps": maps},
        "tables": grouped([*chain(*shown), *titled_list("Doubts", traffic.report)]),
    }


def _machines(pictures: Sequence[Picture], top: float, *, has_moved: bool, last_rank: int) -> View:
    """The machine under the default and perhaps the new placement, or both in one, with one key."""
    looks = ("f-both", "f-before", "f-after")[-len(pictures) :]
    both = len(pictures) > 1
    return {
        "heading": "The machine, before and after" if both else "The machine",
        "samples": congestion_samples(top),
        "shades": [shade(step, 6) for step in range(7)],
        "has_moved": has_moved,
        "last_rank": last_rank,
        "joint": looks[0] == "f-both",
        "drawings": [*zip(looks, pictures, strict=True)],
    }


def _congestion(result: MappingResult, topology: Topology) -> View | None:
    """The busiest links before and after as paired bars; None if no link carries anything."""
    rows, more = link_bars(result, topology)
    table = grouped([link_table(result, topology)])
    return {"bars": rows, "more": more, "table": table} if rows else None


def render(template: str, **values: object) -> str:
    """A template of this folder, filled with `values`."""
    return _environment().get_template(template).render(values)


def asset(name: str) -> str:
    """The text of a file of this folder."""
    return files("toposeat.report.html").joinpath(name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        autoescape=True,
        finalize=_cleaned,
        loader=FunctionLoader(asset),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters["number"] = number
    return environment


def _cleaned(value: object) -> object:
    """A value as it is put in: names come from files of other people, see `units.clean`."""
    return clean(value) if isinstance(value, str) and not hasattr(value, "__html__") else value
