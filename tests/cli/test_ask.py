"""`toposeat ask` as a user types it."""

import json

import pytest

from tests.support.processes import unfolded
from toposeat.cli.main import main


@pytest.fixture
def cluster(tmp_path):
    conf = tmp_path / "topology.conf"
    conf.write_text(
        "SwitchName=t Switches=a,b\nSwitchName=a Nodes=a[0-7]\nSwitchName=b Nodes=b[0-7]\n"
    )
    return str(conf)


def test_the_first_lines_are_the_answer(cluster, capsys):
    words = ["ask", "llm:tp=8,dp=8", "-t", f"{cluster},taper=8", "--node", "hgx-h100"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    first, second, third, *_ = out.splitlines()
    assert first == "Ask       8 nodes, all under one leaf switch"
    assert "scattered nodes (saves " in second
    assert third == "Slurm     sbatch --nodes=8 --gpus-per-node=8 --switches=1"
    line = f"toposeat map llm:tp=8,dp=8 -t {cluster},taper=8 --node hgx-h100 --hosts job"
    assert line in unfolded(err)
    assert main([*words, "-v"]) == 0
    assert "under one leaf switch" in capsys.readouterr().out.partition("of a block, which lie")[2]


def test_json_has_all_that_was_tried(cluster, capsys):
    words = ["ask", "llm:tp=8,dp=8", "-t", f"{cluster},taper=8", "--node", "hgx-h100", "--json"]
    assert main(words) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "toposeat/asked/1"
    assert document["block"]["nodes"] == document["nodes"] == 8
    assert document["block"]["predicted_s"] < document["predicted_scattered_s"]
    assert {each["nodes"] for each in document["tried"]} == {2, 4, 8}
    assert document["requests"]["Slurm"][0].endswith("--switches=1")


def test_a_layout_without_a_wish_says_so(cluster, capsys):
    assert main(["ask", "llm:tp=8,dp=8", "-t", cluster, "--node", "hgx-h100"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(
        "Ask       8 nodes, anywhere: that they are near each other gains nothing"
    )
    assert "the source does not say what uplinks carry" in err


def test_a_part_of_a_node_names_its_devices(tmp_path, capsys):
    label = {"network.topology.nvidia.com/leaf": "a"}
    items = [{"kind": "Node", "metadata": {"name": f"n{at}", "labels": label}} for at in range(2)]
    (tmp_path / "nodes.json").write_text(json.dumps({"apiVersion": "v1", "items": items}))
    words = ["ask", "llm:tp=2", "-t", str(tmp_path / "nodes.json")]
    assert main([*words, "--node", "rtx-4-crossed-bridges"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Ask       1 node: the job fits in")
    assert "count: 2" in out
    assert "pciBusID in [" in out
