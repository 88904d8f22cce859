"""Published measurements beside our predictions: the verdicts, our own rows, the page, README."""

import math
from pathlib import Path

import pytest
from benchmarks.field import __main__ as field
from benchmarks.field.compared import FIELD, FOUND, Compared, Comparison, Span, compared, read_table
from benchmarks.field.machines import MACHINES, text_of
from benchmarks.machine import rewrite_section

from toposeat.topology import parse_topology_text

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "explanation" / "evidence.md"


def row(a, b, kind="link"):
    return Comparison._make(
        [*("x", "source", "2026", "machine", "nodes-of-four", "", "group", "0,1", "0,4"),
         *(str(a), str(b), "GB/s", "5", kind, "note"), None]
    )  # fmt: skip


def beside(measured, predicted):
    a, b = (Span(rate, rate * 0.9, rate * 1.1) for rate in predicted)
    return Compared(row(*measured), a, b, "")


@pytest.mark.parametrize(
    ("measured", "predicted", "verdict", "off"),
    [
        ((20, 10), (30, 10), "right", 1.5),
        ((10, 10.4), (10, 10.2), "right", 1.02),
        ((20, 10), (10, 10.2), "missed", 2.04),
        ((10, 10.4), (10, 20), "invented", 1.923),
        ((20, 10), (10, 20), "reversed", 4),
    ],
)
def test_verdicts(measured, predicted, verdict, off):
    found = beside(measured, predicted)
    assert found.verdict == verdict
    assert found.off == pytest.approx(off, rel=1e-3)
    low, high = found.range
    assert low < math.exp(found.predicted) < high


def test_a_program_may_gain_no_more_than_its_links():
    assert beside((12, 10), (20, 10)).keeps_bound
    assert not beside((20, 10), (12, 10)).keeps_bound


def test_misses_come_first():
    found = [beside((20, 10), (30, 10)), beside((20, 10), (10, 20)), beside((20, 10), (10, 10))]
    lines = [line for line in field.markdown_of(found, []) if line.startswith("| x ")]
    words = ("reversed", "missed", "right")
    assert [next(word for word in words if f"| {word} |" in line) for line in lines] == list(words)


def test_an_error_is_a_row():
    found = compared(row(20, 10)._replace(a="0,99"))
    assert found.verdict == "error"
    assert "has devices 0 to 7" in found.error


@pytest.mark.parametrize("name", MACHINES)
def test_our_machines_are_what_they_say(name):
    machine = parse_topology_text(text_of(MACHINES[name]), Path("machine.txt"))
    assert len(machine.devices) == sum(MACHINES[name].sockets)
    nodes = [device.numa_node for device in machine.devices]
    assert nodes == [at for at, count in enumerate(MACHINES[name].sockets) for _ in range(count)]


def test_our_rows_are_complete_and_predicted():
    found = [compared(each) for each in read_table(FOUND, None)]
    assert len(found) >= 10
    assert [each.error for each in found if each.error] == []
    assert {each.row.kind for each in found} == {"link", "calibrated"}
    assert len({each.row.id for each in found}) == len(found)


@pytest.fixture(scope="module")
def made():
    if not (FIELD / "INDEX.tsv").is_file():
        pytest.skip("no ../shared beside the checkout: published figures are not here")
    return field.made()


def test_our_rows_are_of_other_sources(made):
    theirs = {each.source for each in read_table(FIELD / "INDEX.tsv", FIELD)}
    assert theirs.isdisjoint(each.source for each in read_table(FOUND, None))


def test_the_page_and_the_rows_are_of_this_state(made):
    section, rows = made
    assert f"do not edit -->\n{section}<!-- end of field -->" in PAGE.read_text(), "run: make field"
    assert field.ROWS.read_text() == rows, "run: make field"


@pytest.mark.parametrize("page", [ROOT / "README.md", PAGE])
def test_what_was_not_seen_before_is_said(page):
    assert field.UNSEEN in " ".join(page.read_text().split()), f"{page} should say: {field.UNSEEN}"


def test_the_page_has_each_that_names_the_slower_one():
    found = [beside((20, 10), (30, 10)), beside((20, 10), (10, 20))]
    programs = [each._replace(row=each.row._replace(kind="app")) for each in found]
    lines = [line for line in field.section_of([*found, *programs]) if line.startswith("| x ")]
    assert [line.split(" | ")[-1] for line in lines] == ["reversed |", "reversed |"]


def test_every_row_is_listed_and_no_file_of_a_machine():
    text = field.ROWS.read_text()
    for each in read_table(FOUND, None):
        assert f"- {each.id}: {each.source}" in text
    assert "nvidia-smi" not in text


def test_without_the_table_nothing_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(field, "FIELD", tmp_path)
    monkeypatch.setattr("sys.argv", ["field", "--page", str(tmp_path / "page.md")])
    assert field.main() == 0
    assert "skipped: no shared/field" in capsys.readouterr().out
    assert not (tmp_path / "page.md").exists()


def test_only_the_section_of_a_page_is_rewritten(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- x: made by x -->\nold\n<!-- end of x -->\nb\n")
    rewrite_section(page, "x", "new\n")
    assert page.read_text() == "a\n<!-- x: made by x -->\nnew\n<!-- end of x -->\nb\n"
    with pytest.raises(ValueError, match="has 0 sections"):
        rewrite_section(page, "y", "")
