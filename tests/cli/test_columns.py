"""Narrow terminals: values go to another line or below, and none is cut."""

import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from toposeat.cli.main import main
from toposeat.model.traffic_file import save_traffic
from toposeat.profile import pattern_traffic
from toposeat.report import TextStyle

WIDTHS = (40, 60, 80, 120)
WIDEST = 400
LINES = (
    "doctor -t dgx-1v",
    "doctor -t a100-pcie-8-bridged",
    "discover -t dgx-1v",
    "discover -t aurora-12 -v",
    "discover -t mi250x-8 -v",
    "discover -t fattree:2:2:4",
    "discover --list",
    "map --list",
    "map llm:tp=2,dp=4 -t dgx-1v",
    "map llm:tp=2,pp=2 -t rtx-4-crossed-bridges -v",
    "map stencil2d:2x4 -t dgx-1v -v --explain",
    "map ring:16 -t fattree:2:2:4 -v",
    "choose 4 -t a100-pcie-8-bridged",
    "report app.prof",
    "report app.place",
    "report --traffic stencil2d:2x4 -t dgx-1v",
    "report --traffic llm:tp=2,pp=2,dp=2",
    "compare app.place",
    "ask llm:tp=8,dp=8 -t fattree:8:8:8 --node hgx-h100",
)
OURS = re.compile(r"(?i)\b(?:told|untold|readings?|premises?|stack \d|realised|guaranteed gain)\b")
VALUE = re.compile(r"\S*\d\S*")


@pytest.fixture
def shown(monkeypatch):
    """What a verb shows of one result, at every width."""
    texts = defaultdict(str)

    def show(_stream, render, *nouns):
        for width in (*WIDTHS, WIDEST):
            texts[width] += render(*nouns, TextStyle(width=width))

    main(["discover", "--list"])  # imports the verbs' common modules
    for verb in {line.split()[0] for line in LINES}:
        with pytest.raises(SystemExit):
            main([verb, "--help"])
    for name, module in list(sys.modules.items()):
        if name.startswith("toposeat.cli.") and hasattr(module, "show"):
            monkeypatch.setattr(module, "show", show)
    return texts


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("columns")
    save_traffic(pattern_traffic("stencil2d:2x4"), path / "app.prof")
    words = ["map", "llm:tp=4", "-t", "rtx-4-crossed-bridges", "-o", str(path / "app.place")]
    assert main(words) == 0
    return path


@pytest.mark.parametrize("line", LINES)
def test_no_value_is_lost(line, shown, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    for width in (*WIDTHS, WIDEST) if line.startswith("report") else (WIDEST,):
        style = TextStyle(width=width)
        monkeypatch.setattr("toposeat.cli.report.style_of", lambda _stream, style=style: style)
        assert main(line.split()) == 0
        shown[width] += capsys.readouterr().out
    whole = set(VALUE.findall(shown[WIDEST]))
    assert whole
    for width in WIDTHS:
        text = shown[width]
        assert "\N{HORIZONTAL ELLIPSIS}" not in text
        folded = re.sub(r"\s", "", text)  # a word that is wider than its column is broken
        lost = {v for v in whole - set(VALUE.findall(text)) if v not in folded}
        assert not lost, f"{width} columns"
        words = set(re.findall(r"[a-z]{3,}", shown[WIDEST]))  # units and names, too
        assert {word for word in words if word not in folded} == set(), f"{width} columns"


@pytest.mark.parametrize("line", LINES)
def test_the_words_are_a_strangers(line, shown, folder, monkeypatch):
    """What the glossary alone explains is not in the first answer, in text and on a page."""
    monkeypatch.chdir(folder)
    if line.startswith(("map", "report")) and "--list" not in line and "fattree" not in line:
        page = ["--html" if line.startswith("map") else "-o", "page.html", "-f"]
        assert main([*line.split(), *page]) == 0
        markup = re.sub(
            "<(script|style)>.*?</[a-z]*>", "", Path("page.html").read_text(), flags=re.S
        )
        shown[80] += re.sub("<[^>]*>", " ", markup)
    else:
        assert main(line.split()) == 0
    assert not OURS.findall(shown[80])


def test_lines_to_copy_alone_are_wider(shown):
    assert main(["doctor", "-t", "dgx-1v"]) == 0
    wide = [line for line in shown[40].splitlines() if len(line) > 40]
    assert wide
    assert all(line.startswith(("CUDA_", "toposeat ")) for line in wide)
