import re
import sys
import tempfile
from dataclasses import replace
from importlib.resources import files

import pytest
from msgspec import structs

from tests.report import samples
from tests.report.markup import Page, assert_nothing_from_outside
from tests.report.samples import EVIL
from tests.report.test_expected import compare
from tests.support.processes import ran
from toposeat.installed import VERSION
from toposeat.mapping import assess
from toposeat.model.placement import HostDevice, Placement, Seat
from toposeat.model.traffic import Communicator, PairTable, Traffic
from toposeat.profile import pattern_traffic
from toposeat.report import Section, html_page, render_run_text, render_topology_text


def gain():
    tree, traffic = samples.k80_16(), samples.timed(samples.stencil((2, 2, 4), weight=3))
    return tree, traffic, samples.mapping(tree, traffic, samples.K80_PLACED)


def page_of(*sections, **options):
    text = html_page(sections, **options)
    assert text.startswith("<!DOCTYPE html>")
    assert_nothing_from_outside(text)
    return Page(text.removeprefix("<!DOCTYPE html>"))


QUIET = Traffic(ranks=4, origin="quiet", tables={samples.DEVICE_P2P: PairTable.empty()})
SMALL = samples.small_tree()
PLACED = Placement(
    seats=(Seat(rank=0, local_rank=0, index=0),), devices_of_host={"*": (HostDevice(index=0),)}
)
COMMANDS = ("toposeat run -p app.place -- mpirun -n 16 ./halo3d",)


def on_small(traffic, *order):
    found = samples.mapping(SMALL, traffic, order or range(traffic.ranks))
    return Section(SMALL, traffic, found)


PAGES = {
    "page of a gain": lambda: [Section(*gain(), commands=COMMANDS, run=samples.run_record())],
    "page of a kept default": lambda: [on_small(samples.stencil((4,)))],
    "page of shared devices": lambda: [
        Section(SMALL, samples.stencil((4,)), *assess(SMALL, samples.stencil((4,)), [(0, 0, 1, 2)]))
    ],
    "page of no traffic": lambda: [on_small(QUIET)],
    "page of parts": lambda: [
        Section(samples.one_device()),
        Section(traffic=Traffic(ranks=1, origin="quiet", tables={})),
        Section(traffic=samples.timed(samples.stencil((2, 2)))),
        Section(run=samples.run_record()),
        Section(placement=PLACED),
    ],
}


@pytest.mark.parametrize("name", PAGES)
def test_words_are_as_expected(name):
    page = page_of(
        *PAGES[name](), title="halo3d", subtitle="mpirun ./halo3d", created="2026-11-20 22:00 UTC"
    )
    words = "\n".join(line.strip() for line in page.words.splitlines() if line.strip())
    compare(f"{name}.words", words.replace(f"toposeat {VERSION}", "toposeat 0") + "\n")


def test_before_after_and_what_changes_are_drawn():
    page = page_of(*PAGES["page of a gain"]())
    # three drawings with all devices (what changes, before, after), every one with a rank
    assert sum(re.match(r"D\d+\n", title) is not None for title in page.titles) == 48
    for rank in range(16):
        ends = (f"\nrank {rank}", f"\nrank {rank} (moved)")
        assert sum(title.endswith(ends) for title in page.titles) >= 2
    assert (page.classes("bar-row"), page.classes("bar")) == (14, 28)
    kept = page_of(*PAGES["page of a kept default"]())
    assert (kept.classes("machine"), kept.classes("moved")) == (1, 0)
    assert kept.classes("bar") == kept.classes("bar-row") > 0


def test_several_machines_have_their_own_parts():
    tree, traffic, result = gain()
    box = samples.switch_box()
    other = samples.mapping(box, traffic, range(16))
    page = page_of(Section(tree, traffic, result), Section(box, traffic, other))
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {"s1", "s2"} <= set(ids)
    links = [attrs["href"] for tag, attrs in page.tags if tag == "a"]
    assert links == ["#s1", "#s2"]
    targets = [attrs["for"] for tag, attrs in page.tags if tag == "label"]
    assert set(targets) <= set(ids)


def test_hostile_names_never_become_markup():
    tree, traffic, result = gain()
    hostile = replace(
        tree,
        name=EVIL,
        description=EVIL,
        origin=EVIL,
        devices=tuple(replace(d, name=EVIL, uuid=EVIL) for d in tree.devices),
        components=tuple(replace(c, name=EVIL) for c in tree.components),
        links=tuple(replace(li, name=EVIL) for li in tree.links),
        report=(EVIL,),
        sources=("https://example.org/" + EVIL,),
    )
    bad_traffic = Traffic(
        ranks=16, origin=EVIL, tables=traffic.tables, collective_model=EVIL, report=(EVIL,)
    )
    bad_result = replace(
        result, solver=EVIL, notes=(EVIL,), certificate=replace(result.certificate, reason=EVIL)
    )
    run = replace(samples.run_record(), command=(EVIL,), host=EVIL, notes=(EVIL,))
    text = html_page(
        [Section(hostile, bad_traffic, bad_result, run=run, title=EVIL, commands=(EVIL,))],
        title=EVIL,
        subtitle=EVIL,
        created=EVIL,
    )
    assert_nothing_from_outside(text)
    page = Page(text.removeprefix("<!DOCTYPE html>"))
    assert sum(tag == "script" for tag, _ in page.tags) == 1
    assert not any(tag == "img" for tag, _ in page.tags)
    assert EVIL in page.words


def test_templates_let_nothing_through_unescaped():
    folder = files("toposeat.report.html")
    templates = [each for each in folder.iterdir() if each.name.endswith(".html")]
    assert len(templates) == 4
    for template in templates:
        text = template.read_text(encoding="utf-8")
        assert not re.search(r"\|\s*safe|autoescape|Markup", text), template.name


def test_only_a_page_imports_the_template_engine():
    program = """
import sys
from toposeat.cli.main import main
assert main(["map", "ring:4", "-t", "dgx-1v"]) == 0
assert "jinja2" not in sys.modules
assert main(["map", "ring:4", "-t", "dgx-1v", "--html", sys.argv[1]]) == 0
assert "jinja2" in sys.modules
"""
    with tempfile.TemporaryDirectory() as folder:
        line = [sys.executable, "-c", program, f"{folder}/page.html"]
        done = ran(line)
    assert done.returncode == 0, done.stderr


def test_the_policy_forbids_fetching():
    page = page_of(Section(samples.small_tree()))
    policies = [
        attrs["content"]
        for tag, attrs in page.tags
        if tag == "meta" and attrs.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"]


def test_unicode_is_kept():
    tree = replace(samples.small_tree(), name="机器-Gerät")
    text = html_page([Section(tree)], title="Überblick 日本 🚀")
    assert "Überblick 日本 🚀" in text
    assert "机器-Gerät" in text


def test_64_devices_and_ranks():
    cluster, traffic = samples.cluster(8, 8), samples.stencil((4, 4, 4))
    result = samples.mapping(cluster, traffic, range(63, -1, -1), proved=False)
    page = page_of(Section(cluster, traffic, result))
    for host in range(8):
        for index in range(8):
            assert f"node{host:02d}:D{index}" in page.words
    drawn = [t for t in page.titles if "\nrank " in t]
    assert len(drawn) == 3 * 64
    assert {t.split("rank ")[1].split()[0] for t in drawn} == {str(n) for n in range(64)}


def test_mapping_needs_its_machine():
    _, traffic, result = gain()
    with pytest.raises(ValueError, match="with its topology"):
        Section(None, traffic, result)


def test_styles_of_the_page_do_not_reach_into_drawings():
    """`.switch` once hid the drawn switches on paper: figure.css alone styles drawings."""
    page = page_of(Section(*gain()))
    depth_classes = {
        name
        for tag, attrs in page.tags
        if tag in {"g", "rect", "text", "path"}
        for name in (attrs.get("class") or "").split()
    }
    page_css = (files("toposeat.report.html") / "page.css").read_text(encoding="utf-8")
    styled = set(re.findall(r"\.([a-z][\w-]*)", page_css))
    assert depth_classes & styled <= {"moved", "bar-row", "hit-row", "lit", "device"}


def test_bars_share_one_scale():
    tree, traffic, result = gain()
    seconds = {"default": (4.0, 2.0), "placed": (1.0, 0.0)}
    for name, (first, second) in seconds.items():
        each = getattr(result, name)
        loads = (
            structs.replace(each.links[0], link=tree.links[0].id, congestion_s=first),
            structs.replace(each.links[0], link=tree.links[1].id, congestion_s=second),
        )
        result = replace(result, **{name: replace(each, links=loads)})  # type: ignore[arg-type]
    page = page_of(Section(tree, traffic, result))
    rows = [attrs["title"] for _, attrs in page.tags if attrs.get("class") == "bar-row"]
    styles = [attrs["style"] for tag, attrs in page.tags if tag == "i" and "style" in attrs]
    assert styles == ["width: 100%", "width: 25%", "width: 50%", "width: 0%"]
    assert [str(row).partition(": default ")[2] for row in rows] == [
        "4.00 s, placed 1.00 s",
        "2.00 s, placed 0 s",
    ]
    assert "idle" in page.words


@pytest.mark.parametrize("name", ["k80_16", "mesh_8", "switch_box"])
def test_a_page_leaves_out_nothing_that_text_says_of_a_machine(name):
    machine = getattr(samples, name)()
    overview, tree, *tables = render_topology_text(machine).split("\n\n")
    assert tree.count("D0  ") == 1, "the tree is drawn"
    words = page_of(Section(machine)).words.split()
    assert set(" ".join([overview, *tables]).split()) - {"-"} <= {*words, "Topology"}


def test_a_page_leaves_out_nothing_that_text_says_of_a_run():
    record = samples.run_record()
    words = page_of(Section(run=record)).words.split()
    assert set(render_run_text(record).split()) - {"-"} <= set(words)


def test_communication_groups_are_named():
    traffic = pattern_traffic("llm:tp=2,dp=4")
    hostile = Communicator(id=0, ranks=(0, 1), name="<img src=x>")
    traffic = replace(traffic, communicators=(hostile, *traffic.communicators[1:]))
    page = html_page([Section(traffic=traffic)])
    _, _, table = page.partition("Groups that a library orders itself")
    table = table.partition("</table>")[0]
    assert "&lt;img src=x&gt;" in table
    assert "<img" not in page
    for group in traffic.communicators[1:]:
        assert f">{group.name}<" in table
    assert ">0 2 4 6<" in table
    assert "Groups that" not in html_page([Section(traffic=replace(traffic, groups=()))])
