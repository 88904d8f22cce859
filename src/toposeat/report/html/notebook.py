"""Machines, traffics, placements and results as a notebook shows them: a fragment of HTML each."""

from __future__ import annotations

from functools import singledispatch

from toposeat.model.evaluation import Certificate, Evaluation, MappingResult
from toposeat.model.few import first_few
from toposeat.model.group_rate import GroupRate
from toposeat.model.noun import Noun, stated_members
from toposeat.model.placement import Placement
from toposeat.model.plural import plural
from toposeat.model.topology import Topology
from toposeat.model.traffic import Traffic
from toposeat.report.html.page import asset, grouped, render
from toposeat.report.parts import Part, Table, sentences
from toposeat.report.svg.element import Markup
from toposeat.report.units import format_rates
from toposeat.report.view.loads import load_cells
from toposeat.report.view.machine import topology_sentence
from toposeat.report.view.mapping import (
    before_after,
    certificate_words,
    figures_of,
    proof_words,
    range_words,
    verdict_words,
)
from toposeat.report.view.placement import placement_facts, placement_table
from toposeat.report.view.topology import topology_overview
from toposeat.report.view.traffic import profile_tables, traffic_sentence

_MOST_SEATS = 64
_LINKS = _PAIRS = 5


@singledispatch
def notebook_html(noun: object) -> str:
    """A fragment of HTML; names from files are escaped.

    Raises:
        TypeError: no such noun.
    """
    raise TypeError(f"nothing is known to show a {type(noun).__name__}")


@notebook_html.register
def _(topology: Topology) -> str:
    return _fragment(topology_sentence(topology), *topology_overview(topology)[1:])


@notebook_html.register
def _(traffic: Traffic) -> str:
    tables = profile_tables(traffic, pairs=_PAIRS)
    return _fragment(traffic_sentence(traffic), *tables["totals"], *tables["pairs"])


@notebook_html.register
def _(placement: Placement) -> str:
    words = plural(placement.ranks, "rank")
    if placement.ranks > _MOST_SEATS:
        words += f", the first {_MOST_SEATS} shown"
    said = placement_facts(placement)[:-1]
    return _fragment(words, *said, placement_table(placement, _MOST_SEATS))


@notebook_html.register
def _(result: MappingResult) -> str:
    said = [proof_words(result), range_words(result.premises)]
    order = f"Device of rank 0, 1, ...: {first_few(map(str, result.device_of_rank), _MOST_SEATS)}"
    notes = sentences(result.notes)
    return _fragment(
        verdict_words(result), *filter(None, said), order, *notes, before_after(result)
    )


@notebook_html.register
def _(evaluation: Evaluation) -> str:
    rows = [(each.name, each.form(each.of(evaluation))) for each in figures_of().values()]
    links = [(load.link, *load_cells(load)) for load in evaluation.links[:_LINKS]]
    header = ("link", "bytes", "congestion")
    return _fragment(
        f"A placement of {plural(len(evaluation.device_of_rank), 'rank')}, predicted",
        Table(("", "predicted"), rows, right=(1,)),
        Table(header, links, right=(1, 2), caption="Busiest links"),
    )


@notebook_html.register
def _(certificate: Certificate) -> str:
    return _fragment(certificate_words(certificate))


@notebook_html.register
def _(rate: GroupRate) -> str:
    devices = ", ".join(map(str, rate.devices))
    rates = format_rates(rate.bytes_per_s, rate.low, rate.high)
    rings = [(str(number), " ".join(map(str, ring))) for number, ring in enumerate(rate.rings, 1)]
    return _fragment(
        f"Devices {devices} as one group: {rates}, predicted",
        Table(("ring", "devices"), rings, right=(0,)),
    )


@notebook_html.register
def _(noun: Noun) -> str:
    members = [(name, str(value)) for name, value in stated_members(noun)]
    said = type(noun).__name__ + ("" if members else " with its defaults")
    return _fragment(said, Table(("", ""), members, has_header=False))


def _fragment(first: str, *parts: Part) -> str:
    """Styles are of one class: none reach into the notebook."""
    style = Markup(asset("notebook.css"))
    blocks = grouped(parts)
    return render("notebook.html", style=style, first=first, blocks=blocks)
