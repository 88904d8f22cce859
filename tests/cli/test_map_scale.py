"""`toposeat map -t SHAPE`: text, JSON, placement file, and what a shape cannot take."""

import json
import re
from xml.etree import ElementTree

import pytest

from tests.support.processes import executable
from toposeat.cli.main import main
from toposeat.model.placement_file import load_placement

TRAFFIC = "stencil2d:8x16"
SHAPE = "hierarchy:4:8:8,costs=1:10:100"


def test_text_shows_before_and_after(capsys):
    assert main(["map", TRAFFIC, "-t", SHAPE, "--objective", "cost", "-v"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Verdict   Predicted gain from moving ")
    assert "256 slots" in out
    assert "worst link congestion" in out
    assert "process grid 8x16" in out


def test_json_is_sparse_and_its_seats_are_distinct(capsys):
    assert main(["map", TRAFFIC, "-t", SHAPE, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "toposeat/mapping/3"
    assert len(set(document["device_of_rank"])) == document["ranks"] == 128
    assert document["placed"]["predicted_s"] <= document["default"]["predicted_s"]
    assert document["certificate"]["word"] == "heuristic"
    assert 0 < len(document["placed"]["links"]) <= 20
    assert document["placed"]["links"][0]["congestion_s"] == document["placed"]["max_congestion_s"]


def test_the_placement_file_names_host_and_device(tmp_path, capsys):
    target = tmp_path / "job.place"
    command = ["map", TRAFFIC, "-t", SHAPE, "--objective", "cost", "-o", str(target)]
    assert main(command) == 0
    assert f"Wrote {target}" in capsys.readouterr().err
    placement = load_placement(target)
    assert placement.ranks == 128
    assert {seat.host for seat in placement.seats} <= {f"node{n}" for n in range(8)}
    assert max(seat.index for seat in placement.seats) < 32
    assert main(command) == 2  # never overwritten without -f


def test_what_is_worth_it(capsys):
    assert main(["map", TRAFFIC, "-t", SHAPE, "--min-gain", "99"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "less than 99 % is not worth moving ranks for" in out


CONF = "SwitchName=top Switches=l[1-2]\nSwitchName=l1 Nodes=n[1-3]\nSwitchName=l2 Nodes=n[4-5]\n"


def test_a_network_of_hosts_with_a_node(tmp_path, capsys, monkeypatch):
    conf, place = tmp_path / "topology.conf", tmp_path / "job.place"
    conf.write_text(CONF)
    command = ["map", "stencil2d:4x6", "-t", f"slurm:{conf},taper=2", "--node", "dgx-1v"]
    assert main([*command, "--hosts", "n5,n[1-2]", "-o", str(place)]) == 0
    out = capsys.readouterr().out
    assert "3 hosts, 24 x" in out
    assert "the node's own, 12.5 GB/s" in out
    assert "divided by 2" in out
    placement = load_placement(place)
    assert {seat.host for seat in placement.seats} == {"n1", "n2", "n5"}
    assert all(seat.pci_bus_id and seat.nic and seat.cpus for seat in placement.seats)
    executable(tmp_path / "srun", "#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    line = ["run", "-p", str(place), "--dry-run", "--", "srun", "-n", "24", "true"]
    assert main(line) == 0
    out = capsys.readouterr().out
    assert f"-m {place} -E MASTER_ADDR=n5 -E SLURM_JOB_NODELIST=n5,n1,n2 " in out
    assert out.endswith(" -- true\n")


@pytest.mark.parametrize("options", [[], ["--stack", "direct"], ["--solver", "search"], ["-v"]])
def test_an_answer_of_either_form_is_shown(options, tmp_path, capsys):
    """128 devices are listed only where that is needed."""
    conf = tmp_path / "topology.conf"
    conf.write_text("SwitchName=leaf Nodes=n[1-16]\n")
    command = ["map", "ring:128", "-t", str(conf), "--node", "hgx-h100", "--budget", "0.1"]
    assert main([*command, *options]) == 0
    assert "rate per adapter port" in capsys.readouterr().out


def test_discover_shows_a_network(tmp_path, capsys):
    conf = tmp_path / "topology.conf"
    conf.write_text(CONF)
    assert main(["discover", "-t", str(conf)]) == 0
    out = capsys.readouterr().out
    assert "5 hosts on 3 switches, tree" in out
    assert "n[1-3]" in out
    assert main(["discover", "-t", str(conf), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "toposeat/network/1"
    assert [host["name"] for host in document["hosts"]] == ["n1", "n2", "n3", "n4", "n5"]
    assert main(["discover", "-t", str(conf), "--format", "svg"]) == 0
    drawing = ElementTree.fromstring(capsys.readouterr().out)
    texts = {"".join(each.itertext()) for each in drawing.iter() if each.tag.endswith("text")}
    assert texts >= {"l1", "l2", "n1", "n2", "n3", "n4", "n5", "75.0 GB/s of 75.0 GB/s"}


def test_the_order_of_nodes_is_in_the_answer(tmp_path, capsys):
    network = tmp_path / "four.conf"
    network.write_text(
        "SwitchName=top Switches=a,b\nSwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\n"
    )
    place = tmp_path / "app.place"
    command = [
        *("map", "llm:tp=4,dp=4", "-t", f"{network},taper=4"),
        *("--node", "rtx-4-crossed-bridges", "--hosts", "n[1,3,2,4]"),
    ]
    assert main([*command, "-o", str(place)]) == 0
    out, err = capsys.readouterr()
    assert len((out + err).splitlines()) <= 16  # the file, its export and what is next included
    assert "saves 0 % to 38 % of link time, by processor" in out
    order = list(dict.fromkeys(seat.host for seat in load_placement(place).seats))
    assert f"by first rank: {', '.join(order)} (" in out
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["hosts_by_first_rank"] == order
    assert {frozenset(order[:2]), frozenset(order[2:])} == {
        frozenset({"n1", "n2"}),
        frozenset({"n3", "n4"}),
    }


def test_devices_have_their_one_name_in_links_of_hosts(capsys):
    command = ["map", "ring:16", "-t", "fattree:8:2", "--node", "dgx-1v", "-v"]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert re.search(r"PCIe: node\d+:D\d - node\d+ switch \d", out), out
    assert "gpu" not in out
