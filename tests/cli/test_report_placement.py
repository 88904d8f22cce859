"""A saved placement is reported as `map` answered, wherever and however it is read again."""

import json
import re
from html import unescape

import pytest

from tests.support.catalogue import CATALOGUE
from toposeat import pipeline, report
from toposeat.cli.main import main
from toposeat.mapping import Machine
from toposeat.model.placement_file import load_placement
from toposeat.profile import pattern_traffic
from toposeat.topology import read_topology

LINES = [
    "stencil2d:4x4 -t k80-16",  # proved
    "llm:tp=2,dp=2 -t rtx-4-crossed-bridges",  # untold
    "stencil2d:2x4 -t l40s-8 --objective cost --metric hybrid",
    "stencil2d:2x4 -t l40s-8 --stack openmpi-ucx",
    "stencil2d:2x2 -t dgx-1v --devices 2-7",  # another default
    "stencil2d:4x4 -t dgx-1v --slots 2",
    "llm:tp=2,dp=4 -t dgx-1v --solver random",
    "llm:tp=8,dp=2 -t fattree:8:2,taper=4 --node hgx-h100",
    "stencil2d:4x4 -t fattree:8:2,taper=4 --node dgx-1v --solver exact",
    "llm:tp=8,dp=32 -t fattree:8:16:8,taper=4",  # a shape alone
]


def said(line, capsys):
    assert main(line) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("line", LINES)
def test_report_says_what_map_said(line, tmp_path, capsys):
    place = str(tmp_path / "a.place")
    mapped = said(["map", *line.split(), "-o", place], capsys)
    reported = said(["report", place], capsys)
    assert reported.startswith(mapped)
    assert not re.search(r"^ *[a-z_]+: ", reported, re.MULTILINE)  # no keys of the file
    header = load_placement(place).metadata
    proof = header["proof"]
    assert f"Verdict   {header['verdict']}"[:60] in mapped
    for form in ("html", "svg"):
        written = tmp_path / f"a.{form}"
        said(["report", place, "-o", str(written)], capsys)
        words = " ".join(unescape(re.sub("<[^>]*>", " ", written.read_text())).split())
        assert header["verdict"] in words
        assert proof.rstrip(".") in words
        assert header.get("range", "") in words


@pytest.mark.parametrize("name", CATALOGUE)
def test_report_says_it_of_every_machine(name, tmp_path, capsys):
    """Verdict, order, range and proof are those of `map`."""
    machine = read_topology(name)
    count = len(machine.devices)
    for pattern in (f"ring:{count}", f"llm:tp=2,dp={count // 2}"):
        place = tmp_path / f"{pattern.partition(':')[0]}.place"
        mapped = said(["map", pattern, "-t", name, "-o", str(place)], capsys)
        assert said(["report", str(place)], capsys).startswith(mapped)
        result = pipeline.result_of_saved(
            Machine.of(machine), load_placement(place), pattern_traffic(pattern), place
        )
        assert report.verdict_words(result) == load_placement(place).metadata["verdict"]
        assert result.solver != "given"


def test_a_profile_beside_it_is_found_and_documents_have_the_certificate(
    tmp_path, capsys, monkeypatch
):
    job = tmp_path / "job"
    job.mkdir()
    (job / "t.csv").write_text("0,9,0,1\n9,0,3,3\n1,1,0,900000\n5,5,900000,0\n")
    monkeypatch.chdir(job)
    mapped = said(["map", "t.csv", "-t", "dgx-1v", "-o", "a.place"], capsys)
    monkeypatch.chdir(tmp_path)
    assert said(["report", "job/a.place"], capsys).startswith(mapped)
    document = json.loads(said(["report", "job/a.place", "job/t.csv", "--json"], capsys))
    traffic, mapping, placement = document["parts"]
    assert traffic["schema"].startswith("toposeat/traffic/")
    assert mapping["certificate"]["word"] == placement["metadata"]["certificate"]
    assert mapping["solver"] != "given"
    alone = json.loads(said(["report", "job/a.place", "--json"], capsys))
    assert alone["metadata"]["verdict"] == placement["metadata"]["verdict"]


@pytest.mark.parametrize("machine", ["-t k80-16", "-t fattree:8:2,taper=4 --node dgx-1v"])
def test_without_its_traffic_it_says_what_was_said_and_shows_the_machine(machine, tmp_path, capsys):
    traffic, place, page = tmp_path / "t.csv", str(tmp_path / "a.place"), tmp_path / "a.html"
    traffic.write_text("0,9,0,9000000\n9,0,9000000,3\n1,9000000,0,9\n9000000,5,9,0\n")
    mapped = said(["map", str(traffic), *machine.split(), "-o", place], capsys)
    traffic.unlink()
    assert main(["report", place]) == 0
    captured = capsys.readouterr()
    assert "No predictions: " in captured.err
    assert captured.out.splitlines()[0] == mapped.splitlines()[0]
    assert "\nProof     " in captured.out
    assert "\nTraffic   " in captured.out
    assert "\nPlacement 4 ranks on " in captured.out
    said(["report", place, "-o", str(page)], capsys)
    assert load_placement(place).metadata["verdict"] in page.read_text()
    assert page.read_text().count("<svg") > 0


def test_another_traffic_order_or_damage_claims_no_proof(tmp_path, capsys):
    place = tmp_path / "a.place"
    said(["map", "stencil2d:4x4", "-t", "k80-16", "-o", str(place)], capsys)
    text = place.read_text()
    other = " ".join(said(["report", str(place), "--traffic", "ring:16"], capsys).split())
    assert "Proved" not in other
    assert "others when this was saved: Predicted gain from moving 8" in other
    head, columns, *rows = re.split(r"^(?=rank\t|[0-9])", text, flags=re.MULTILINE)
    first, second = (row.split("\t", 3) for row in (rows[0], rows[9]))
    rows[0], rows[9] = "\t".join([*first[:3], second[3]]), "\t".join([*second[:3], first[3]])
    place.write_text("".join([head, columns, *rows]))
    edited = said(["report", str(place)], capsys)
    assert "Proved" not in edited
    assert "others when this was saved" in " ".join(edited.split())
    for old, new in (
        ('{"certificate"', '{"certain"'),
        ('"metric": "bandwidth"', '"metric": "beauty"'),
        ('"seconds": [', '"seconds": [[['),
        ('"seconds": [', '"seconds": [1e-3, '),
    ):
        assert old in text
        place.write_text(text.replace(old, new))
        damaged = said(["report", str(place)], capsys)
        assert damaged.startswith("Verdict   Predicted gain from moving 8 of 16 ranks")
        assert "Proved" not in damaged
    for default in ("[99]", "[-1" + ", 3" * 15 + "]"):  # what no machine has is not looked at
        place.write_text(text.replace('"default": null', f'"default": {default}'))
        assert "Proved" in said(["report", str(place)], capsys)


def test_a_gain_is_green_and_a_loss_is_red_on_pictures_too(tmp_path, capsys):
    for solver, look in (("auto", "better"), ("random", "worse"), ("default", "")):
        picture = tmp_path / f"{solver}.svg"
        place = str(tmp_path / f"{solver}.place")
        said(["map", "stencil2d:4x4", "-t", "k80-16", "--solver", solver, "-o", place], capsys)
        said(["report", place, "-o", str(picture)], capsys)
        looks = set(re.findall(r'<text class="(better|worse)"', picture.read_text()))
        assert looks == ({look} if look else set())


def test_of_several_each_stands_below_its_name(tmp_path, capsys):
    places, mapped = [], []
    for solver in ("auto", "random"):
        places.append(str(tmp_path / f"{solver}.place"))
        line = ["map", "stencil2d:2x4", "-t", "dgx-1v", "--solver", solver, "-o", places[-1]]
        mapped.append(said(line, capsys))
    both = said(["report", *places], capsys)
    assert both.startswith(f"auto.place\n{mapped[0]}")
    assert f"\n\nrandom.place\n{mapped[1]}" in both
    assert len(json.loads(said(["report", *places, "--json"], capsys))["parts"]) == 4
