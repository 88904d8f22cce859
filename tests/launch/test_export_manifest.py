"""Manifests of Kubernetes: what is added is in the published schemas, all else stays as it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.launch.test_export import placement
from tests.launch.test_export_nodes import HOSTS, PLACE
from tests.support.processes import executable, ran
from toposeat.cli.main import main
from toposeat.errors import InputError, UsageError
from toposeat.launch import Export, export_placement
from toposeat.launch.launchers.kubernetes import KINDS
from toposeat.model.placement import Placement

FIELDS = tomllib.loads((Path(__file__).parent / "kubernetes_fields.toml").read_text())
POD = FIELDS.pop("pod")
GPUS = {"limits": {"nvidia.com/gpu": 4}}
AFFINITY = {
    "nodeSelectorTerms": [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": HOSTS}]}
    ]
}
ALIKE = placement([h for h in HOSTS for _ in "12"], [1, 0] * 3, [None] * 6)


def patched(text: str, place: Placement = ALIKE) -> Export:
    return export_placement(place, "kubernetes", manifest=(text, Path("job.yaml")))


def text_of(export: Export) -> str:
    file, *more = export.files
    assert file.name == "job.placed.yaml"
    assert export.line == " ".join(["kubectl apply", *(f"-f {each.name}" for each in export.files)])
    assert [each.name for each in more] in ([], ["toposeat-rendezvous.json"])
    return file.text


def at(path: str, value: Any) -> Any:
    """An object with a value at a path, `[]` standing for a list of it."""
    for key in reversed(path.split(".")):
        name = key.removesuffix("[]")
        value = {name: [{"name": "node", **value}] if key.endswith("[]") else value}
    return value


def merged(a: Any, b: Any) -> Any:
    if not (isinstance(a, dict) and isinstance(b, dict)):
        return b
    return {**a, **{k: merged(a[k], v) if k in a else v for k, v in b.items()}}


def manifest_of(name: str, *, gpus: bool = True) -> dict[str, Any]:
    """A job of a kind: in each template a container of no interest, and one that asks for GPUs."""
    kind = FIELDS[name]
    found: dict[str, Any] = {
        "apiVersion": kind["api"],
        "kind": kind.get("kind", name),
        "metadata": {"name": "job"},
        "spec": {},
    }
    if name == "TrainJob":
        return found | {"spec": {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 3}}}
    for path in kind["templates"]:
        main = {"name": "main", "image": "x"}
        if gpus and "Launcher" not in path:
            main["resources"] = GPUS  # type: ignore[assignment]
        pods = {"spec": {"containers": [{"name": "side", "image": "s"}, main]}}
        found = merged(found, at(path, pods))
    return found


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Paths of the schema and values of all scalars."""
    if isinstance(value, dict):
        for key, own in value.items():
            yield from leaves(own, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for own in value:
            yield from leaves(own, f"{path}[]")
    else:
        yield path, value


def allowed(name: str) -> set[str]:
    kind = FIELDS[name]
    below = {f"{path}.{field}" for path in kind["templates"] for field in POD["fields"]}
    return below | set(kind.get("fields", ()))


def added(before: str, after: str) -> list[tuple[str, Any]]:
    """What `after` has more; each thing of `before` is still there."""
    new = [list(leaves(each)) for each in yaml.safe_load_all(after)]
    for document, old in zip(new, yaml.safe_load_all(before), strict=True):
        for leaf in leaves(old):
            document.remove(leaf)
    return [leaf for document in new for leaf in document]


@pytest.mark.parametrize("flow", [False, True], ids=["yaml", "json"])
@pytest.mark.parametrize("name", FIELDS)
def test_only_fields_of_the_published_schema_are_added(name: str, flow: bool) -> None:
    document = manifest_of(name)
    text = json.dumps(document, indent=2) if flow else yaml.safe_dump(document, sort_keys=False)
    export = patched(text)
    new = added(text, text_of(export))
    assert {path for path, _ in new} <= allowed(name)
    hosts = [value for path, value in new if path.endswith("matchExpressions[].values[]")]
    templates = [each for each in FIELDS[name]["templates"] if "Launcher" not in each]
    assert hosts == HOSTS * (1 if name == "TrainJob" else len(templates))
    assert "CUDA_VISIBLE_DEVICES" in [value for _, value in new]
    assert any("the order of nodes comes at the start" in note for note in export.notes)


def test_all_kinds_have_their_fields() -> None:
    known = {(kind["api"].split("/")[0], kind.get("kind", name)) for name, kind in FIELDS.items()}
    assert known == set(KINDS)


def test_every_kind_says_the_order_in_a_way_of_its_own() -> None:
    said = {name: patched(yaml.safe_dump(manifest_of(name))).notes[0] for name in FIELDS}
    assert "--hostfile" in said["MPIJob"]
    assert "indices(group)" in said["RayJob"]
    for name in ("JobSet", "LeaderWorkerSet", "PyTorchJob", "TrainJob"):
        assert "--rdzv-backend=toposeat" in said[name]


def test_what_the_author_wrote_stays_line_by_line() -> None:
    text = """\
# ours
apiVersion: batch/v1
kind: Job   # indexed
metadata: {name: "a b"}
spec:
  completionMode: Indexed
  template:
    spec:
      containers:
      - name: main
        args: [yes, 0x10, '08', 1e3]
        env:
        - {name: A, value: "on"}
---
apiVersion: v1
kind: ConfigMap
data: {x: |-
 y}
""".replace("data: {x: |-\n y}", "data:\n  x: |\n    toposeat\n")
    new = text_of(patched(text))
    lines = iter(new.splitlines())
    assert all(line in lines for line in text.splitlines())  # in their order
    assert "# toposeat: these nodes" in new
    env = yaml.safe_load_all(new).__next__()["spec"]["template"]["spec"]["containers"][0]["env"]
    assert [each["name"] for each in env] == [
        "TOPOSEAT_NODE",
        "CUDA_DEVICE_ORDER",
        "CUDA_VISIBLE_DEVICES",
        "TOPOSEAT_NODES",
        "PYTHONPATH",
        "A",
    ]
    assert json.loads(env[3]["value"])["order"] == HOSTS


def test_an_affinity_that_is_there_is_narrowed() -> None:
    document = manifest_of("Job")
    pool = {"key": "pool", "operator": "In", "values": ["a"]}
    field = {"key": "metadata.name", "operator": "In", "values": ["n3"]}
    terms = [{"matchExpressions": [pool]}, {"matchFields": [field]}]
    spec = document["spec"]["template"]["spec"]
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    spec["affinity"] = {"podAffinity": {}, "nodeAffinity": {key: {"nodeSelectorTerms": terms}}}
    new = yaml.safe_load(text_of(patched(yaml.safe_dump(document))))
    own = new["spec"]["template"]["spec"]["affinity"]["nodeAffinity"][key]["nodeSelectorTerms"]
    ours = AFFINITY["nodeSelectorTerms"][0]["matchExpressions"][0]
    # Kubernetes takes a node that any term selects by all of its expressions and fields.
    assert own[0] == {"matchExpressions": [ours, pool]}
    assert own[1] == {"matchExpressions": [ours], "matchFields": [field]}


def test_only_pods_that_ask_for_gpus_are_bound_if_any_does() -> None:
    jobs = [
        {"name": name, "template": {"spec": {"template": {"spec": {"containers": [each]}}}}}
        for name, each in (
            ("driver", {"name": "d"}),
            ("gpu", {"name": "g", "resources": {"claims": [{"name": "gpu"}]}}),
        )
    ]
    document = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    new = yaml.safe_load(
        text_of(patched(yaml.safe_dump(document | {"spec": {"replicatedJobs": jobs}})))
    )
    specs = [each["template"]["spec"]["template"]["spec"] for each in new["spec"]["replicatedJobs"]]
    assert ["affinity" in each for each in specs] == [False, True]


def test_a_train_job_keeps_the_older_field_where_it_has_it() -> None:
    document = manifest_of("TrainJob")
    assert "runtimePatches" in text_of(patched(yaml.safe_dump(document)))
    document["spec"]["podTemplateOverrides"] = [{"targetJobs": [{"name": "node"}]}]
    new = text_of(patched(yaml.safe_dump(document)))
    assert "runtimePatches" not in new
    assert len(yaml.safe_load(new)["spec"]["podTemplateOverrides"]) == 2


def test_torchrun_finds_the_rendezvous_and_the_order(tmp_path: Path) -> None:
    """The volume of the pod, laid out as kubelet does, has an entry point that reads the order."""
    document = manifest_of("JobSet") | {"metadata": {"name": "job", "namespace": "ours"}}
    export = patched(yaml.safe_dump(document))
    map_ = json.loads(export.files[1].text)
    assert map_["metadata"]["namespace"] == "ours"
    (job,) = yaml.safe_load(text_of(export))["spec"]["replicatedJobs"]
    spec = job["template"]["spec"]["template"]["spec"]
    (volume,), main = spec["volumes"], spec["containers"][1]
    assert volume["configMap"]["name"] == map_["metadata"]["name"]
    assert main["volumeMounts"] == [{"name": volume["name"], "mountPath": "/opt/toposeat"}]
    for item in volume["configMap"]["items"]:
        path = tmp_path / item["path"]
        path.parent.mkdir(exist_ok=True)
        path.write_text(map_["data"][item["key"]])
    env = {each["name"]: each.get("value", "") for each in main["env"]}
    assert env["PYTHONPATH"] == "/opt/toposeat"
    ask = (
        "from importlib.metadata import entry_points as e; import os\n"
        "(one,) = e(group='torchrun.handlers', name='toposeat'); module = one.load().__module__\n"
        "import sys; print(sys.modules[module]._plan(os.environ['TOPOSEAT_NODES'])[0])"
    )
    own = {"PYTHONPATH": str(tmp_path), "TOPOSEAT_NODES": env["TOPOSEAT_NODES"]}
    done = ran([sys.executable, "-c", ask], env=own, check=True)
    assert done.stdout.strip() == str(HOSTS)


def test_a_python_path_of_the_user_has_to_name_the_rendezvous() -> None:
    document = manifest_of("Job")
    (_, main) = document["spec"]["template"]["spec"]["containers"]
    main["env"] = [{"name": "PYTHONPATH", "value": "/src"}]
    with pytest.raises(InputError, match="PYTHONPATH is set") as error:
        patched(yaml.safe_dump(document))
    assert error.value.hint == "put /opt/toposeat: in front of its value"
    main["env"][0]["value"] = "/opt/toposeat:/src"
    new = yaml.safe_load(text_of(patched(yaml.safe_dump(document))))
    env = new["spec"]["template"]["spec"]["containers"][1]["env"]
    assert [each["value"] for each in env if each["name"] == "PYTHONPATH"] == ["/opt/toposeat:/src"]


def test_the_host_file_of_mpi_follows_the_plan(tmp_path: Path) -> None:
    (document,) = yaml.safe_load_all(text_of(patched(yaml.safe_dump(manifest_of("MPIJob")))))
    roles = document["spec"]["mpiReplicaSpecs"]
    launcher = roles["Launcher"]["template"]["spec"]
    assert "affinity" not in launcher
    variables = {each["name"]: each.get("value") for each in launcher["containers"][0]["env"]}
    main = roles["Worker"]["template"]["spec"]["containers"][1]
    field = {"fieldRef": {"fieldPath": "spec.nodeName"}}
    assert {"name": "TOPOSEAT_NODE", "valueFrom": field} in main["env"]
    # Workers are on nodes in an order that the scheduler chose; sshd of each knows its node.
    on = {"w-0.w": HOSTS[2], "w-1.w": HOSTS[0], "w-2.w": HOSTS[1]}
    for worker, node in on.items():
        (tmp_path / worker).mkdir()
        command = " ".join(main["lifecycle"]["postStart"]["exec"]["command"][2:])
        command = command.replace("/tmp/", f"{tmp_path}/{worker}/")
        subprocess.run(["sh", "-c", command], env={"TOPOSEAT_NODE": node}, check=True)
    executable(tmp_path / "ssh", f'#!/bin/sh\ncat "{tmp_path}/$2/${{4##*/}}"\n')
    script = variables["TOPOSEAT_ORDER"]
    for form in ("{} slots=4", "{}:4"):  # of Open MPI, of MPICH and Intel MPI
        (tmp_path / "list").write_text("".join(form.format(each) + "\n" for each in on))
        run = script.replace("/etc/mpi/hostfile", str(tmp_path / "list"))
        run = run.replace("/tmp/hostfile", str(tmp_path / "out"))
        path = f"{tmp_path}:{os.environ['PATH']}"
        subprocess.run(["sh", "-c", run], env={**variables, "PATH": path}, check=True)
        order = ["w-1.w", "w-2.w", "w-0.w"]
        assert (tmp_path / "out").read_text().splitlines() == [form.format(x) for x in order]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("a: [", "expected"),
        ("[" * 100_000, "no valid YAML"),
        ("kind: Service\napiVersion: v1\n", "no object of a kind"),
        ("x" * 300_000, "larger than"),
        ("apiVersion: batch/v1\nkind: Job\nspec: {template: {spec: {<<: {}}}}\n", "merge keys"),
        (
            "apiVersion: batch/v1\nkind: Job\nspec: {template: {spec: {affinity: 3}}}\n",
            "no place for nodeAffinity",
        ),
    ],
)
def test_a_damaged_manifest_is_refused(text: str, match: str) -> None:
    with pytest.raises(InputError, match=match) as error:
        patched(text)
    assert error.value.hint


def test_what_a_template_cannot_say_is_said() -> None:
    text = yaml.safe_dump(manifest_of("Job"))
    assert any("different orders of devices" in note for note in patched(text, PLACE).notes)
    with pytest.raises(InputError, match="has a plan already"):
        patched(text_of(patched(text)))
    with pytest.raises(UsageError, match="openmpi4 has no manifest"):
        export_placement(ALIKE, "openmpi4", manifest=(text, Path("job.yaml")))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf, job = tmp_path / "net.conf", tmp_path / "job.yaml"
    conf.write_text(
        "SwitchName=top Switches=a,b\nSwitchName=a Nodes=n[0-1]\nSwitchName=b Nodes=n2\n"
    )
    job.write_text(yaml.safe_dump(manifest_of("JobSet")))
    place, out = str(tmp_path / "p.place"), tmp_path / "out"
    network = ["-t", f"{conf},taper=4", "--node", "polaris-4", "--hosts", "n0,n2,n1"]
    assert main(["map", "llm:tp=4,dp=3", *network, "-o", place]) == 0
    words = ["export", place, "--launcher", "kubernetes", "--manifest", str(job)]
    assert main([*words, "-o", str(out)]) == 0
    assert "kubectl apply -f job.placed.yaml" in capsys.readouterr().err
    assert "n0" in (out / "job.placed.yaml").read_text()
