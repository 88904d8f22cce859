"""Pods of Kubernetes and bundles of Ray, as both document what binds them to nodes."""

from __future__ import annotations

import importlib.util
import itertools
import json
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from tests.launch.test_export import MIXED, file_of, placement
from tests.launch.test_export_nodes import DEVICES, HOSTS, PLACE, option
from toposeat.cli.main import main
from toposeat.errors import UsageError
from toposeat.launch import export_placement
from toposeat.model.placement import Placement


def test_pods_are_bound_to_their_nodes() -> None:
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


@pytest.fixture
def cluster_of_ray(monkeypatch: pytest.MonkeyPatch) -> dict[int, str]:
    """Ray's functions for three nodes; the bundles of a group by the id of their node."""
    nodes = [
        {
            "NodeID": f"id-{host}",
            "NodeManagerHostname": f"{host}.example.org",
            "NodeManagerAddress": f"10.0.0.{number}",
            "Alive": True,
        }
        for number, host in enumerate(sorted(HOSTS))
    ]
    nodes.append({**nodes[0], "Alive": False, "NodeID": "gone", "NodeManagerAddress": "10.9.9.9"})
    where: dict[int, str] = {}
    ray = types.ModuleType("ray")
    ray.nodes = lambda: nodes  # type: ignore[attr-defined]
    util, groups = types.ModuleType("ray.util"), types.ModuleType("ray.util.placement_group")
    groups.placement_group = lambda bundles, **options: (bundles, options)  # type: ignore[attr-defined]
    groups.placement_group_table = lambda _: {"bundles_to_node_id": where}  # type: ignore[attr-defined]
    for module in (ray, util, groups):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return where


def module_of(text: str, folder: Path) -> types.ModuleType:
    path = folder / "ray_bundles.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("ray_bundles", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("place", [PLACE, MIXED], ids=["blocks", "mixed"])
def test_bundles_of_ray_follow_ranks(
    place: Placement, tmp_path: Path, cluster_of_ray: dict[int, str]
) -> None:
    hosts = [{"n1": "n3"}.get(seat.host, seat.host) for seat in place.seats]
    place = placement(hosts, [seat.index for seat in place.seats], [None] * len(hosts))
    module = module_of(file_of(export_placement(place, "ray"), "ray_bundles.py"), tmp_path)
    address = {host: f"10.0.0.{number}" for number, host in enumerate(sorted(HOSTS))}
    bundles, options = module.create(strategy="PACK")
    assert [set(each) for each in bundles] == [
        {"CPU", "GPU", f"node:{address[host]}"} for host in hosts
    ]
    assert options == {"strategy": "PACK"}
    # A group whose bundles Ray packed in an order of its own, one for each rank ...
    cluster_of_ray.update(enumerate(f"id-{host}" for host in sorted(hosts)))
    found = module.indices("group")
    assert sorted(found) == list(range(len(hosts)))
    assert [cluster_of_ray[bundle] for bundle in found] == [f"id-{host}" for host in hosts]
    # ... and one for each node
    cluster_of_ray.clear()
    cluster_of_ray.update(enumerate(f"id-{host}" for host in sorted(set(hosts))))
    assert [cluster_of_ray[bundle] for bundle in module.indices("group")] == [
        f"id-{host}" for host in hosts
    ]


def test_in_pods_ray_finds_hosts_by_what_each_pod_says(
    tmp_path: Path, cluster_of_ray: dict[int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = [{"n1": "n3"}.get(seat.host, seat.host) for seat in PLACE.seats]
    place = placement(hosts, [seat.index for seat in PLACE.seats], [None] * len(hosts))
    module = module_of(file_of(export_placement(place, "ray"), "ray_bundles.py"), tmp_path)
    ray = sys.modules["ray"]
    nodes = [{**each, "NodeManagerHostname": f"pod-{each['NodeID']}"} for each in ray.nodes()]
    head = {**nodes[0], "NodeID": "head", "NodeManagerHostname": "pod-head", "Alive": True}
    ray.nodes = lambda: [head, *nodes]  # type: ignore[attr-defined]
    strategies = types.ModuleType("ray.util.scheduling_strategies")
    strategies.NodeAffinitySchedulingStrategy = lambda node, soft: node  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, strategies.__name__, strategies)

    class Task:
        """A task that runs on one node, whose environment has what its pod's has."""

        def __init__(self, ask: Any) -> None:
            self.ask = ask

        def options(self, *, num_cpus: int, scheduling_strategy: str) -> Task:
            assert num_cpus == 0
            self.node = scheduling_strategy
            return self

        def remote(self) -> str:
            with monkeypatch.context() as patch:
                patch.delenv("TOPOSEAT_NODE", raising=False)
                if self.node != "head":
                    patch.setenv("TOPOSEAT_NODE", self.node.removeprefix("id-"))
                return str(self.ask())

    ray.remote = Task  # type: ignore[attr-defined]
    ray.get = list  # type: ignore[attr-defined]
    cluster_of_ray.update(enumerate(f"id-{host}" for host in sorted(hosts)))
    found = module.indices("group")
    assert [cluster_of_ray[bundle] for bundle in found] == [f"id-{host}" for host in hosts]


def test_a_public_case_is_bound_rack_by_rack(
    shared_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


@pytest.mark.parametrize("launcher", ["ray", "kubernetes"])
def test_a_placement_for_any_host_has_no_order_of_nodes(launcher: str) -> None:
    with pytest.raises(UsageError, match="names no") as error:
        export_placement(placement(["*"] * 2, [1, 0], [None] * 2), launcher)
    assert "--launcher env" in (error.value.hint or "")
