"""A gain in doubt says so wherever it is shown: text, JSON, page, placement, doctor, compare."""

import json

import pytest

from toposeat import pipeline, report
from toposeat.cli.main import main
from toposeat.mapping import Machine
from toposeat.model.placement_file import format_placement, parse_placement
from toposeat.model.result_file import parse_mapping, save_mapping
from toposeat.profile import pattern_traffic
from toposeat.topology import read_topology

NAME = "l40s-8"  # whose processors are not told
DECIDING = ["capacity between sockets"]
TRAFFIC = pattern_traffic("stencil2d:2x4")


@pytest.fixture(scope="module")
def machine():
    return read_topology(NAME)


@pytest.fixture(scope="module")
def doubtful(machine):
    return pipeline.map_traffic(machine, TRAFFIC)


def test_text_and_page_state_the_range(doubtful, machine):
    text = " ".join(report.render_mapping_text(doubtful, machine, TRAFFIC).split())
    assert "Range saves 26 % to 49 % of the default's link time" in text
    assert "capacity between sockets: 59 GB/s (10 to 450)" in text
    page = report.html_page([report.Section(machine, TRAFFIC, doubtful)], title="t")
    assert "saves 26 % to 49 %" in page
    assert "capacity between sockets: 59 GB/s (10 to 450)" in page


def test_json_has_the_premises_and_gives_them_back(doubtful, machine, tmp_path):
    form = json.loads(json.dumps(report.mapping_json(doubtful, machine, TRAFFIC)))["premises"]
    low, high = form["gain_range"]
    nominal = 1 - doubtful.placed.predicted_s / doubtful.default.predicted_s
    assert 0 <= low <= nominal < high < 1
    assert {each["what"] for each in form["assumed"]} == {p.what for p in machine.premises}
    assert [p["what"] for p in form["assumed"] if p["decides"]] == DECIDING
    assert all(each["low"] < each["high"] and each["unit"] for each in form["assumed"])
    save_mapping(doubtful, tmp_path / "m.json")
    again = parse_mapping((tmp_path / "m.json").read_text(), "m.json")
    assert again.premises == doubtful.premises


def test_the_header_of_the_placement_states_the_range(doubtful, machine):
    text = format_placement(pipeline.placement_of(doubtful, machine, TRAFFIC))
    found = parse_placement(text).metadata
    assert found["range"] == report.range_words(doubtful.premises)
    assert found["range"].startswith("saves 26 % to 49 % of the default's link time in 8 scenarios")
    sure = read_topology("k80-16")
    traffic = pattern_traffic("stencil2d:4x4")
    placement = pipeline.placement_of(pipeline.map_traffic(sure, traffic), sure, traffic)
    assert "range" not in placement.metadata


def test_untold_links_are_a_doubt_of_every_form(shared_dir):
    """Clouds ship files whose GPUs have virtual PCIe trees and no NVLinks."""
    machine = read_topology(shared_dir / "machines/nccl-xml/azure-ndv4-topo.xml")
    traffic = pattern_traffic("ring:8")
    result = pipeline.map_traffic(machine, traffic)
    assert result.certificate.word != "proved"
    assert len(result.premises.untold_pairs) == 28
    text = " ".join(report.render_mapping_text(result, machine, traffic).split())
    assert "another order saves 83 % with GPUs wired as dgx-1v, 2 memory nodes per socket" in text
    assert "Settles which device links join the GPUs: nvidia-smi -L" in text
    form = report.mapping_json(result, machine, traffic)["premises"]
    assert len(form["untold_pairs"]) == 28
    assert form["settles"][0]["command"] == "nvidia-smi -L"


def test_a_given_placement_has_a_range_too(doubtful, machine):
    (found,) = pipeline.assess(Machine.of(machine), TRAFFIC, [doubtful.device_of_rank])
    assert found.premises.gain_range == pytest.approx(doubtful.premises.gain_range)


def test_doctor_and_compare_state_the_range(doubtful, machine, tmp_path, capsys):
    (best, *_), _ = pipeline.possible_gains(read_topology("l40s-8"))
    low, high = best.premises.gain_range
    assert low < best.share < high
    if best.proved:
        assert best.share_bound == high
    place = tmp_path / "a.place"
    place.write_text(format_placement(pipeline.placement_of(doubtful, machine, TRAFFIC)))
    line = ["compare", str(place), "-t", NAME, "--traffic", "stencil2d:2x4"]
    assert main([*line, "--json"]) == 0
    default, placed = json.loads(capsys.readouterr().out)["predicted"]
    assert default["premises"] is None  # it is what the others are compared with
    assert placed["premises"]["gain_range"] == pytest.approx(doubtful.premises.gain_range)
    assert main(line) == 0
    assert "saves 26 % to 49 %" in " ".join(capsys.readouterr().out.split())
