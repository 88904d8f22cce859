"""The page itself: header, one part per section, footer."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from importlib.resources import files

from toposeat import __version__
from toposeat.model.topology import Topology
from toposeat.report.html import figures, profile_parts, scale_parts, tables
from toposeat.report.html.section import Section
from toposeat.report.svg.element import Child, Markup, element, joined
from toposeat.report.svg.machine import style_sheet
from toposeat.report.text.run import verification_words
from toposeat.report.units import format_seconds, plural
from toposeat.report.words import (
    certificate_words,
    is_default_kept,
    outcome_word,
    remarks,
    run_share_words,
    topology_sentence,
    traffic_sentence,
    verdict_words,
)

# Nothing may be fetched, whatever a name in a file says.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


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
    parts = [_section(section, f"s{number}") for number, section in enumerate(sections, 1)]
    head = element(
        "head",
        {},
        element("meta", {"charset": "utf-8"}),
        element("meta", {"http-equiv": "Content-Security-Policy", "content": _POLICY}),
        element("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        element("meta", {"name": "color-scheme", "content": "light dark"}),
        element("title", {}, title),
        element("style", {}, Markup(style_sheet() + _asset("page.css"))),
    )
    body = element(
        "body",
        {},
        _header(sections, title, subtitle, created),
        element("main", {}, *parts, _commands(commands, "Next")),
        _footer(),
        element("script", {}, Markup(_asset("page.js"))),
    )
    return "<!DOCTYPE html>\n" + element("html", {"lang": "en"}, head, body) + "\n"


def _asset(name: str) -> str:
    return files("toposeat.report.html").joinpath(name).read_text(encoding="utf-8")


def _header(sections: Sequence[Section], title: str, subtitle: str, created: str) -> Markup:
    where = "  ·  ".join(part for part in (created, f"toposeat {__version__}") if part)
    overview = None
    if len(sections) > 1:
        items = []
        for number, section in enumerate(sections, 1):
            link = element("a", {"href": f"#s{number}"}, section.heading)
            says = verdict_words(section.mapping) if section.mapping else ""
            items.append(element("li", {}, link, element("span", {}, f" {says}") if says else None))
        overview = element("nav", {"aria-label": "sections"}, element("ul", {}, *items))
    return element(
        "header",
        {},
        element("p", {"class": "when"}, where),
        element("h1", {}, title),
        element("p", {"class": "lead"}, subtitle) if subtitle else None,
        overview,
    )


def _footer() -> Markup:
    words = (
        "Predicted numbers come from a model of the links (bytes over capacity, max-min fair"
        " sharing) and cover link time only; measured numbers come from runs. They never share a"
        " column. Devices are numbered D as the vendor's tool numbers them."
    )
    return element("footer", {}, element("p", {}, words))


def _section(section: Section, key: str) -> Markup:
    parts: list[Child] = [element("h2", {}, section.heading)]
    if section.text:
        parts.append(element("p", {}, section.text))
    parts.append(_facts(section))
    if section.mapping is not None and section.topology is not None:
        parts += _mapping_parts(section, key)
    elif section.topology is not None:
        parts += [element("h3", {}, "The machine"), figures.machine_plain(section.topology)]
    if section.scale is not None:
        parts += scale_parts.scale_parts(section.scale)
    parts += _traffic_parts(section)
    parts += _run_parts(section)
    if section.placement is not None:
        parts.append(
            _fold(
                "placement: CPU set, memory node and NIC of each rank",
                tables.placement_table(section.placement),
            )
        )
    parts.append(_commands(section.commands, "How to run it"))
    if section.topology is not None:
        parts.append(_provenance(section, section.topology))
    elif section.traffic is not None and section.traffic.report:
        parts += [element("h3", {}, "Doubts"), _list(section.traffic.report)]
    return element("section", {"id": key, "aria-label": section.heading}, *parts)


def _facts(section: Section) -> Markup:
    rows: list[Child] = []
    if section.topology is not None:
        rows += [
            element("dt", {}, "Machine"),
            element("dd", {}, topology_sentence(section.topology)),
        ]
        if section.topology.description:
            rows += [element("dt", {}, ""), element("dd", {}, section.topology.description)]
    if section.scale is not None:
        words = scale_parts.machine_words(section.scale)
        rows += [element("dt", {}, "Machine"), element("dd", {}, words)]
    if section.traffic is not None:
        rows += [element("dt", {}, "Traffic"), element("dd", {}, traffic_sentence(section.traffic))]
        if section.traffic.metadata.get("pattern"):
            words = section.traffic.metadata["pattern"]
            rows += [element("dt", {}, "Pattern"), element("dd", {}, words)]
    mapping = section.mapping
    if mapping is not None:
        how = f"objective {mapping.objective}, metric {mapping.metric}, solver {mapping.solver}"
        how += f", {format_seconds(mapping.solve_seconds)}"
        rows += [element("dt", {}, "Mapping"), element("dd", {}, how)]
    return element("dl", {"class": "facts"}, *rows)


def _mapping_parts(section: Section, key: str) -> list[Child]:
    result, topology, traffic = section.mapping, section.topology, section.traffic
    if result is None or topology is None or traffic is None:
        return []
    kept = is_default_kept(result)
    share = run_share_words(result, traffic)
    verdict = element(
        "div",
        {"class": f"verdict {'kept' if kept else outcome_word(result)}"},
        element("p", {"class": "says"}, verdict_words(result)),
        element("p", {}, certificate_words(result.certificate, result.metric)),
        element("p", {}, share) if share else None,
        *(element("p", {}, note) for note in result.notes),
    )
    pair = element(
        "div",
        {"class": "pair stacked" if len(topology.hosts) > 1 else "pair"},
        element("div", {}, tables.before_after(result, topology)),
        tables.seats(result, topology),
    )
    word = "The machine" if kept else "The machine, before and after"
    return [
        verdict,
        pair,
        element("h3", {}, word),
        figures.machine_views(result, topology, key),
        element("h3", {}, "Congestion per link (predicted)"),
        element(
            "p",
            {"class": "hint"},
            "Bytes over a link divided by its capacity: the seconds it needs at least.",
        ),
        figures.congestion_bars(result, topology),
    ]


def _traffic_parts(section: Section) -> list[Child]:
    traffic = section.traffic
    if traffic is None:
        return []
    modelled = traffic.collective_model
    return [
        element("h3", {}, "Who talks to whom"),
        profile_parts.verdict(traffic),
        figures.heat_maps(section.mapping, section.topology, traffic),
        tables.totals(traffic),
        element("p", {"class": "hint"}, f"Collective bytes are modelled edges: {modelled}")
        if modelled
        else None,
        *profile_parts.details(traffic),
    ]


def _run_parts(section: Section) -> list[Child]:
    run = section.run
    if run is None:
        return []
    repeats = f" over {plural(run.repeats, 'run')}" if run.repeats > 1 else ""
    rows: list[Child] = []
    for name, words in (
        ("Command", shlex.join(run.command)),
        ("Started as", shlex.join(run.launched)),
        ("Where", f"{run.host}, {run.started_at}, visibility {run.visibility}"),
        ("Measured", f"wall time {format_seconds(run.wall_s)}{repeats}, exit code {run.exit_code}"),
        ("Verified", verification_words(run).removeprefix("Verification: ")),
    ):
        rows += [element("dt", {}, name), element("dd", {}, words)]
    return [
        element("h3", {}, "The run (measured)"),
        element("dl", {"class": "facts"}, *rows),
        tables.verification(run) if run.seats else None,
        _list(run.notes) if run.notes else None,
    ]


def _commands(commands: Sequence[str], title: str) -> Markup | None:
    if not commands:
        return None
    lines = [
        element(
            "div",
            {"class": "command"},
            element("code", {}, command),
            element("button", {"type": "button", "class": "copy", "hidden": True}, "copy"),
        )
        for command in commands
    ]
    return element("div", {"class": "commands"}, element("h3", {}, title), *lines)


def _provenance(section: Section, topology: Topology) -> Markup:
    doubts = [*topology.report, *(section.traffic.report if section.traffic else ())]
    listed = (("Doubts", doubts), ("Sources", topology.sources), ("Remarks", remarks(topology)))
    return joined(
        [
            element("h3", {}, "Where the numbers come from"),
            element("p", {}, f"Topology read from: {topology.origin}."),
            tables.provenance(topology),
            *(joined([element("h4", {}, title), _list(lines)]) for title, lines in listed if lines),
            _fold("devices", tables.devices(topology)),
            _fold("links and their capacities", tables.link_list(topology)),
        ]
    )


def _list(lines: Sequence[str]) -> Markup:
    return element("ul", {}, *(element("li", {}, line) for line in lines))


def _fold(words: str, content: Markup) -> Markup:
    return element("details", {}, element("summary", {}, words), content)
