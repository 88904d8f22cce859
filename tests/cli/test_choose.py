"""`toposeat choose` as a user types it."""

import json

from toposeat.cli.main import main


def test_the_line_to_copy_is_the_second(capsys):
    assert main(["choose", "2", "-t", "rtx-4-crossed-bridges", "--free", "1-3"]) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("Take      D1, D3: ")
    assert second == "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1,3"


def test_amd_has_a_variable_of_its_own(capsys):
    assert main(["choose", "4", "-t", "mi60-8", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["line"] == "ROCR_VISIBLE_DEVICES=0,1,2,3"
    assert document["sets"] == document["sets_tried"] == 70


def test_a_known_traffic_decides(capsys):
    words = ["choose", "3", "-t", "rtx-4-crossed-bridges", "--for", "ring:3", "--json"]
    assert main(words) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(set(document["devices"])) == 3
    assert document["predicted_s"] > 0


def test_a_set_that_mixes_products_says_so(shared_dir, capsys):
    """Two RTX 5090 and three RTX 4090: any four of them are mixed."""
    case = shared_dir / "cases/topology/57-mixed-5090-4090-x8"
    words = ["choose", "4", "-t", str(case / "topo.txt"), "-t", str(case / "gpus.csv")]
    assert main(words) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Mixed 2 products: NVIDIA GeForce RTX 5090 (D" in said
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    named = [index for own in document["products"].values() for index in own]
    assert sorted(named) == sorted(document["devices"])
    assert main(["choose", "4", "-t", "l40s-8"]) == 0
    assert "Mixed" not in capsys.readouterr().out
