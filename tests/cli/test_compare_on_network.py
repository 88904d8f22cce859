"""`toposeat compare` and `report` of placements over the hosts of a network."""

import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from toposeat.cli.main import main

CONF = "SwitchName=top Switches=l[1-2]\nSwitchName=l1 Nodes=n[1-3]\nSwitchName=l2 Nodes=n[4-5]\n"
TRAFFIC = "stencil2d:4x6"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("network")


@pytest.fixture(scope="module")
def machine(folder):
    conf = folder / "topology.conf"
    conf.write_text(CONF)
    return ["-t", f"slurm:{conf},taper=2", "--node", "dgx-1v", "--hosts", "n5,n[1-2]"]


@pytest.fixture(scope="module")
def places(machine, folder):
    paths = []
    for solver in ("auto", "random"):
        paths.append(str(folder / f"{solver}.place"))
        assert main(["map", TRAFFIC, *machine, "--solver", solver, "-o", paths[-1]]) == 0
    return paths


@pytest.fixture(scope="module")
def found(machine, folder):
    """The machine, the traffic and the answer as JSON of each search: over devices, over hosts."""
    conf = folder / "many.conf"
    conf.write_text(CONF.replace("n[4-5]", "n[4-9]"))
    many = ["-t", f"slurm:{conf},taper=2", "--node", "dgx-1v"]
    said = {}
    for search, traffic, on in (("devices", TRAFFIC, machine), ("hosts", "stencil2d:8x9", many)):
        with redirect_stdout(io.StringIO()) as out:
            assert main(["map", traffic, *on, "--json"]) == 0
        said[search] = on, traffic, out.getvalue()
    return said


def test_compare_says_what_map_said(machine, places, capsys):
    assert main(["map", TRAFFIC, *machine, "--solver", "random", "--json"]) == 0
    mapped = json.loads(capsys.readouterr().out)
    assert main(["compare", *places, *machine, "--traffic", TRAFFIC, "--json"]) == 0
    default, _, random = json.loads(capsys.readouterr().out)["predicted"]
    for name in ("predicted_s", "max_congestion_s", "hop_bytes", "levels", "links", "cost"):
        assert default[name] == mapped["default"][name]
        assert random[name] == mapped["placed"][name]


def test_compare_text_names_levels_and_hosts(machine, places, capsys):
    assert main(["compare", *places, *machine, "--traffic", TRAFFIC]) == 0
    out = capsys.readouterr().out
    assert "leaf uplinks" in out
    assert "nvlink in hosts" in out
    assert "nothing was measured" in out
    assert re.search(r"n[125](/| |:)", out)
    assert "n3" not in out  # no host of the job


def test_a_shape_is_compared_too(tmp_path, capsys):
    place, shape = str(tmp_path / "a.place"), "fattree:8:2:2"
    assert main(["map", TRAFFIC, "-t", shape, "--solver", "random", "-o", place]) == 0
    assert main(["compare", place, "-t", shape, "--traffic", TRAFFIC]) == 0
    assert "node uplinks" in capsys.readouterr().out


@pytest.mark.parametrize("form", ["text", "json", "html", "svg"])
def test_report_in_every_form(form, machine, places, capsys):
    command = ["report", places[1], *machine, "--traffic", TRAFFIC, "--format", form]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "leaf uplinks" in out
    assert {"html": "<!DOCTYPE html>", "svg": "<?xml", "json": "{", "text": "Traffic"}[form] in out


def test_a_page_of_placements_alone_is_of_what_they_were_made_for(places, tmp_path, capsys):
    assert main(["report", *places, "--format", "html"]) == 0
    captured = capsys.readouterr()
    assert f"For       {TRAFFIC} on slurm:" in captured.err
    for name in (
        "auto.place",
        "random.place",
        "The machine, leaf by leaf",
        "l1: 2 hosts",
        "n5: ranks ",
    ):
        assert name in captured.out
    # A traffic that is not there any more: the seats are shown, and what is missing is said.
    place = tmp_path / "gone.place"
    text = Path(places[0]).read_text()
    place.write_text(text.replace(f"# traffic: {TRAFFIC}", "# traffic: gone.prof"))
    assert main(["report", str(place), "--format", "html"]) == 0
    captured = capsys.readouterr()
    assert "No predictions: gone.prof: no such file" in captured.err
    assert "leaf by leaf" not in captured.out
    assert "CPU set, memory node and NIC of each rank" in captured.out


def test_a_shape_with_nodes_is_found_in_the_header_with_its_nodes(tmp_path, capsys):
    """Without the node, each device would have an uplink of its own: another machine."""
    places = [str(tmp_path / f"{node}.place") for node in ("hgx-h100", "dgx-1v")]
    for node, place in zip(("hgx-h100", "dgx-1v"), places, strict=True):
        command = ["map", TRAFFIC, "-t", "fattree:8:2:2", "--node", node, "-o", place]
        assert main([*command, "--solver", "random"]) == 0
    capsys.readouterr()
    assert main(["compare", places[0]]) == 0
    assert "fattree:8:2:2 of hgx-h100" in capsys.readouterr().out
    assert main(["report", places[0], "--format", "html"]) == 0
    assert "fattree:8:2:2 of hgx-h100" in capsys.readouterr().out
    assert main(["compare", *places]) == 2
    assert "do not have the same node" in capsys.readouterr().err


def test_hosts_of_another_job_are_refused(machine, places, capsys):
    others = [*machine[:-1], "n[1-3]"]
    assert main(["compare", places[1], *others, "--traffic", TRAFFIC]) == 1
    error = capsys.readouterr().err
    assert "has no host n5" in error
    assert "--hosts" in error


def test_metrics_of_pairs_are_known_where_few_devices_are_listed(machine, places):
    command = ["compare", places[0], *machine, "--traffic", TRAFFIC, "--metric", "latency"]
    assert main(command) == 0


def test_a_saved_mapping_is_reported_as_it_was_shown(machine, tmp_path, capsys):
    saved = tmp_path / "map.json"
    line = ["map", TRAFFIC, *machine, "--solver", "random"]  # the same, however long it may take
    assert main([*line, "-v"]) == 0
    shown = capsys.readouterr().out
    assert main([*line, "--json"]) == 0
    saved.write_text(capsys.readouterr().out)
    assert main(["report", str(saved), "--traffic", TRAFFIC]) == 0
    out = capsys.readouterr().out
    table = shown[shown.index("predicted  ") : shown.index("worst / mean link")]
    assert table in out
    assert main(["report", str(saved)]) == 2
    assert "add --traffic" in capsys.readouterr().err
    assert main(["report", str(saved), "--traffic", "ring:5"]) == 1
    assert "the traffic has 5" in capsys.readouterr().err


@pytest.mark.parametrize("search", ["devices", "hosts"])
@pytest.mark.parametrize("form", ["text", "json", "html", "svg"])
def test_a_saved_mapping_of_either_search_is_shown_on_its_machine(
    *, search, form, found, tmp_path, capsys
):
    saved = tmp_path / "map.json"
    machine, traffic, text = found[search]
    saved.write_text(text)
    command = ["report", str(saved), *machine, "--traffic", traffic, "--format", form]
    assert main(command) == 0
    assert "leaf uplinks" in capsys.readouterr().out


def test_a_damaged_mapping_is_refused(found, tmp_path, capsys):
    document = json.loads(found["devices"][-1])
    saved = tmp_path / "map.json"
    for name, value in (
        ("device_of_rank", [99] * 24),
        ("hosts", ["n1"]),
        ("slots_per_host", "many"),
    ):
        saved.write_text(json.dumps({**document, name: value}))
        assert main(["report", str(saved), "--traffic", TRAFFIC]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert "map.json" in err
        assert "hint:" in err


@pytest.mark.parametrize("damage", ["host twice", "no such host", "a load less", "no loads"])
def test_groups_of_hosts_that_contradict_each_other_are_refused(damage, found, tmp_path, capsys):
    document = json.loads(found["devices"][-1])
    if damage == "host twice":
        document["stages"][0][0]["hosts"].append(document["stages"][0][1]["hosts"][0])
    elif damage == "no such host":
        document["stages"][0][0]["hosts"][0] = 7
    elif damage == "a load less":
        document["placed"]["stages_s"][0].pop()
    else:
        document["default"]["hosts_s"] = []
    saved = tmp_path / "map.json"
    saved.write_text(json.dumps(document))
    assert main(["report", str(saved), "--traffic", TRAFFIC, "-o", str(tmp_path / "x.svg")]) == 1
    assert "groups of hosts and their loads do not go together" in capsys.readouterr().err
