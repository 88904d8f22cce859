"""Pages as a browser shows them: nothing cut, nothing on top of something else, all of it works."""

import base64
import json
import os
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.report import samples
from tests.report.profile_samples import full_profile
from tests.report.samples import EVIL, result_on
from tests.support.catalogue import FEW
from tests.support.chromium import Chromium, find_chromium
from toposeat import mapping
from toposeat.report import Section, html_page, network_file, topology_svg
from toposeat.topology import catalogue_names, read_network, read_topology

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"
MOST_DIFFERENT = 0.001  # share of the pixels of a golden image


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    try:
        program = find_chromium()
    except LookupError as error:
        pytest.skip(str(error))
    found = Chromium(program, tmp_path_factory.mktemp("chromium"))
    yield found
    found.close()


def mapped(tree, traffic, devices):
    return Section(tree, traffic, samples.mapping(tree, traffic, devices))


def on_a_network(text, node=""):
    result = result_on(text, node)
    return Section(traffic=samples.stencil((result.ranks,)), mapping=result)


def bare(text):
    network = read_network(text)
    return Section(network=network, stages=mapping.stages_of_network(network)[0])


def rack():
    ranks = np.random.default_rng(3).permutation(72).tolist()
    return mapped(samples.switch_box(72), samples.stencil((8, 9)), ranks)


SECTIONS = {
    "k80": lambda: [mapped(samples.k80_16(), samples.stencil((2, 2, 4)), samples.K80_PLACED)],
    "kept": lambda: [mapped(samples.mesh_8(), samples.stencil((2, 4)), range(8))],
    "rack": lambda: [rack()],
    "hosts": lambda: [mapped(samples.cluster(8, 8), samples.stencil((8, 8)), range(63, -1, -1))],
    "profile": lambda: [
        Section(traffic=full_profile()),
        Section(traffic=samples.timed(samples.stencil((2, 2, 4)))),
        Section(run=samples.run_record()),
    ],
    "network 64": lambda: [on_a_network("fattree:8:8:8,taper=4", "hgx-h100")],
    "network 512": lambda: [on_a_network("fattree:8:32:16,taper=4")],
    "network 1024": lambda: [on_a_network("fattree:8:16:16:4,taper=2")],
    "dragonfly": lambda: [on_a_network("dragonfly:9:4:4:8")],
    "bare network 512": lambda: [bare("fattree:8:32:16,taper=4")],
    "machine": lambda: [Section(read_topology("dgx-1v"))],
}


@cache
def text_of(name):
    return html_page(SECTIONS[name](), title=name, commands=("toposeat run -p app.place -- ./app",))


def opened(browser, folder, text, width, *, dark=False):
    page = folder / "page.html"
    page.write_text(text, encoding="utf-8")
    browser.open(page, width, dark=dark)
    browser.run((HERE / "measure.js").read_text().replace("const measure", "var measure") + "\n0")


@pytest.mark.parametrize("name", SECTIONS)
def test_a_page_is_whole_and_can_be_read(name, browser, tmp_path):
    """Nothing is outside the window or cut at any width; words are apart and dark on light."""
    opened(browser, tmp_path, text_of(name), 1400)
    assert browser.run("measure.onTopOfEachOther()") == []
    for dark in (False, True):
        browser.emulate("screen", dark=dark)
        assert browser.run("measure.pale(4)") == [], "dark" if dark else "light"
    for width in (1400, 800, 390):
        browser.resize(width)
        assert browser.run("measure.outside()") == [], width
        cut = browser.run(
            "[...document.querySelectorAll('.wide')]"
            ".filter((box) => box.scrollWidth > box.clientWidth + 1).length"
        )
        assert cut == 0, width


@pytest.mark.parametrize(
    "names", [FEW, pytest.param(catalogue_names(), marks=pytest.mark.deep)], ids=["few", "all"]
)
def test_machines_of_the_catalogue_and_networks_are_drawn_without_overlaps(
    browser, tmp_path, names
):
    files = [topology_svg(read_topology(name)) for name in names]
    for text in ("fattree:8:32:16,taper=4", "dragonfly:9:4:4:8", "torus3d:8x4x4,nodes=2"):
        network = read_network(text)
        files.append(network_file(network, *mapping.stages_of_network(network)))
    drawings = "".join(file.split("?>", 1)[1] for file in files)
    window = "<meta name=viewport content='width=device-width, initial-scale=1'>"
    opened(browser, tmp_path, f"<!DOCTYPE html><meta charset=utf-8>{window}{drawings}", 1400)
    assert browser.run("document.querySelectorAll('svg.standalone').length") == len(files)
    for width in (1400, 800, 390):
        browser.resize(width)
        assert browser.run("measure.onTopOfEachOther()") == [], width
        assert browser.run("measure.outside()") == [], width


def test_overlaps_and_cut_parts_would_be_seen(browser, tmp_path):
    bad = """<!DOCTYPE html><div style="width: 2000px">wide</div>
    <svg width="300" height="90"><text x="5" y="20">one</text><text x="9" y="21">two</text>
    <g class="part"><rect x="5" y="40" width="20" height="20" fill="#fff"/>
    <text x="5" y="55">too wide</text></g></svg><p style="color: #ccc">pale</p>"""
    opened(browser, tmp_path, bad, 800)
    assert len(browser.run("measure.outside()")) == 2
    assert len(browser.run("measure.onTopOfEachOther()")) == 2
    assert len(browser.run("measure.pale(4)")) == 1


def find(browser, words):
    return browser.run(
        f"""(() => {{ const field = document.querySelector(".tools input");
        field.value = {json.dumps(words)}; field.dispatchEvent(new Event("input"));
        return document.querySelector(".tools output").textContent }})()"""
    )


def test_search_finds_ranks_devices_and_hosts(browser, tmp_path):
    opened(browser, tmp_path, text_of("k80"), 1400)
    assert not browser.run("document.querySelector('.tools').hidden")
    assert find(browser, "rank 7") == "1 found"  # in the drawing that is shown; not 70 to 79
    assert find(browser, "7") == "1 found"
    assert find(browser, "D1") == "2 found"  # the device and its link
    assert find(browser, "0000:05:00.0") == "1 found"
    assert find(browser, "nothing like it") == "0 found"
    assert find(browser, "") == ""
    assert browser.run("document.querySelectorAll('.searching, .found').length") == 0
    opened(browser, tmp_path, text_of("network 64"), 1400)
    assert find(browser, "rank 200") == "2 found"
    assert find(browser, "node17") == "2 found"
    named = browser.run(
        "[...document.querySelectorAll('.found title')].map((title) => title.textContent)"
    )
    assert [title.split(":")[0] for title in named] == ["node17", "node17"]


def test_enter_goes_to_what_was_found_and_fit_comes_back(browser, tmp_path):
    width = "document.querySelector('svg.machine').getBoundingClientRect().width"
    for screen in (390, 1400):
        opened(browser, tmp_path, text_of("network 512"), screen)
        before = browser.run(width)
        assert find(browser, "node301") == "2 found"
        for at in (0, 1):
            browser.run(
                "document.querySelector('.tools input')"
                ".dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }))"
            )
            box = browser.run(
                f"(({{ x, y, width, height }}) => ({{ x, y, width, height }}))"
                f"(document.querySelectorAll('.found')[{at}].getBoundingClientRect())"
            )
            assert box["height"] >= 14.5
            assert 0 <= box["x"] <= box["x"] + box["width"] <= screen
            assert 0 <= box["y"] <= box["y"] + box["height"] <= 900
        assert browser.run(width) > 1.2 * before
        assert browser.run("measure.outside()") == []
        frame = browser.run("document.querySelector('.zoomed').getBoundingClientRect().height")
        assert frame <= 900
        browser.run("document.querySelector('[data-zoom=\"0\"]').click()")
        assert browser.run(width) == pytest.approx(before)
        browser.run("document.querySelector('[data-zoom=\"1.5\"]').click()")
        assert browser.run(width) == pytest.approx(1.5 * before, rel=0.01)
        browser.run("document.querySelector('[data-zoom=\"0\"]').click()")
        assert browser.run("document.querySelectorAll('.zoomed').length") == 0


def test_a_wide_machine_begins_legible_and_fits_a_small_screen(browser, tmp_path):
    text = html_page([Section(read_topology("tree:4:4:4"))])
    shown = (
        "(() => { const svg = document.querySelector('svg.machine');"
        "return svg.getBoundingClientRect().width / svg.width.baseVal.value })()"
    )
    opened(browser, tmp_path, text, 1400)
    assert browser.run(shown) == pytest.approx(1, rel=0.01)
    assert browser.run("document.querySelector('.zoomed').scrollLeft") == 0
    opened(browser, tmp_path, text, 390)
    assert browser.run(shown) < 0.2
    assert browser.run("document.querySelectorAll('.zoomed').length") == 0


def test_print_is_light_whole_and_without_tools(browser, tmp_path):
    opened(browser, tmp_path, text_of("k80"), 800, dark=True)
    browser.run("document.querySelector('[data-zoom=\"1.5\"]').click()")
    browser.emulate("print", dark=True)
    style = "getComputedStyle(document.querySelector('{}')).{}"
    assert browser.run(style.format("body", "backgroundColor")) == "rgb(255, 255, 255)"
    assert browser.run(style.format(".tools", "display")) == "none"
    assert browser.run(style.format(".zoomed", "maxHeight")) == "none"
    assert browser.run("measure.outside()") == []
    cut = "(() => { const box = document.querySelector('.zoomed');"
    assert not browser.run(f"{cut} return box.scrollWidth > box.clientWidth + 1 }})()")


def test_hostile_names_stay_words_when_they_are_searched_for(browser, tmp_path):
    result = result_on("fattree:4:4:2")
    result = replace(result, hosts=tuple(f"{EVIL}{at}" for at in range(len(result.hosts))))
    tree = replace(samples.small_tree(), name=f"<img src=https://example.org/x>{EVIL}")
    sections = [Section(traffic=samples.stencil((16,)), mapping=result), Section(tree)]
    asked, said = len(browser.requested), len(browser.dialogs)
    opened(browser, tmp_path, html_page(sections, title=EVIL), 1400)
    assert find(browser, EVIL + "5") == "2 found"
    assert browser.requested[asked:] == []
    assert browser.dialogs[said:] == []
    assert browser.run("document.querySelectorAll('img, iframe').length") == 0


DRAWN = {
    "k80-16": lambda: topology_svg(read_topology("k80-16")),
    "gb200-nvl72": lambda: topology_svg(read_topology("gb200-nvl72")),
    "fattree": lambda: html_page(
        [
            Section(
                traffic=samples.stencil((256,)),
                mapping=result_on("fattree:8:8:8,taper=4", seed=None),
            )
        ]
    ),
}


@pytest.mark.parametrize("name", DRAWN)
def test_pictures_look_as_they_did(name, browser, tmp_path):
    """With TOPOSEAT_UPDATE_GOLDEN=1 the pictures of now become those to compare with."""
    opened(
        browser,
        tmp_path,
        DRAWN[name]().removeprefix('<?xml version="1.0" encoding="UTF-8"?>'),
        1400,
    )
    png = browser.picture("svg.machine", 0.5)
    golden = GOLDEN / f"{name}.png"
    if os.environ.get("TOPOSEAT_UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_bytes(png)
    opened(browser, tmp_path, "<!DOCTYPE html>", 100)  # whose policy lets pictures in
    assert difference(browser, golden.read_bytes(), png) <= MOST_DIFFERENT


def test_another_picture_would_be_told_apart(browser, tmp_path):
    """One device less is seen."""
    drawn = topology_svg(read_topology("k80-16")).split("?>", 1)[1]
    before, _, after = drawn.rpartition('<g class="device">')
    opened(browser, tmp_path, before + after.partition("</g>")[2], 1400)
    golden = (GOLDEN / "k80-16.png").read_bytes()
    assert difference(browser, golden, browser.picture("svg.machine", 0.5)) > MOST_DIFFERENT


def difference(browser, one, other):
    words = [json.dumps(base64.b64encode(each).decode()) for each in (one, other)]
    return browser.run(f"measure.difference({words[0]}, {words[1]})")
