"""Pods of Kubernetes, as it documents what binds them to nodes."""

import itertools
import json
import re

import pytest

from tests.launch.test_export import file_of, placement
from tests.launch.test_export_nodes import DEVICES, HOSTS, PLACE, option
from toposeat.cli.main import main
from toposeat.errors import UsageError
from toposeat.launch import export_placement


def test_pods_are_bound_to_their_nodes():
    export = export_placement(PLACE, "kubernetes", program="train.py")
    service, *pods = json.loads(file_of(export, "pods.json"))["items"]
    assert service["spec"]["clusterIP"] == "None"  # names of pods resolve
    for node, (host, pod) in enumerate(zip(HOSTS, pods, strict=True)):
        assert pod["spec"]["nodeSelector"] == {"kubernetes.io/hostname": host}
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        assert pod["spec"]["subdomain"] == service["metadata"]["name"]
        container = pod["spec"]["containers"][0]
        assert int(option(container["command"], "--node-rank")) == node
        master = f"{pods[0]['spec']['hostname']}.{pods[0]['spec']['subdomain']}"
        assert option(container["command"], "--master-addr") == master
        assert {"name": "CUDA_VISIBLE_DEVICES", "value": DEVICES[host]} in container["env"]
        assert container["resources"]["limits"] == {"nvidia.com/gpu": 4}


def test_a_public_case_is_bound_rack_by_rack(shared_dir, tmp_path, capsys):
    """kubernetes-sigs/kueue issue 3533, by the racks of a topology.conf and by labels of nodes."""
    case = shared_dir / "cases" / "ml" / "05-kueue-3533.conf"
    if not case.exists():
        pytest.skip("no cases of ML jobs in ../shared")
    label = "network.topology.nvidia.com/leaf"
    nodes = [
        {
            "kind": "Node",
            "metadata": {"name": f"n{at}", "labels": {label: f"r{at // 4}"}},
            "status": {"capacity": {"nvidia.com/gpu": "8"}},
        }
        for at in range(12)
    ]
    (tmp_path / "nodes.json").write_text(json.dumps({"apiVersion": "v1", "items": nodes}))
    place = str(tmp_path / "job.place")
    for source in (case, tmp_path / "nodes.json"):
        words = ["-t", f"{source},taper=4", "--node", "hgx-h100", "--hosts"]
        words += [str(case.with_suffix(".hosts")), "-o", place, "-f"]
        assert main(["map", "llm:tp=8,dp=10", *words]) == 0
        assert re.search(r"\(saves (2[5-9]|3[0-5]) %\)", capsys.readouterr().out)
        assert main(["export", place, "--launcher", "kubernetes"]) == 0
        _, *pods = json.loads(capsys.readouterr().out)["items"]
        names = [pod["spec"]["nodeSelector"]["kubernetes.io/hostname"] for pod in pods]
        assert [
            int(option(p["spec"]["containers"][0]["command"], "--node-rank")) for p in pods
        ] == [*range(10)]
        racks = [int(name[1:]) // 4 for name in names]
        assert len(set(names)) == 10
        assert len(list(itertools.groupby(racks))) == 3  # each rack once


def test_a_placement_for_any_host_has_no_order_of_nodes():
    with pytest.raises(UsageError, match="names no") as error:
        export_placement(placement(["*"] * 2, [1, 0], [None] * 2), "kubernetes")
    assert "--launcher env" in (error.value.hint or "")
