"""Kubernetes: pods bound to nodes with their node ranks, or the user's own manifest.

Controllers make all pods of a role from one template, so that a manifest can fix the set of nodes
and no order of them: node affinity says the set, and variables tell what starts the ranks the
order, which it gives them by the node that each pod is on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from toposeat.errors import UsageError
from toposeat.launch.launchers.manifest import Manifest
from toposeat.launch.launchers.seats import Export, Job, LaunchFile
from toposeat.launch.launchers.torchrun import (
    notes_of,
    ranks_per_node,
    rendezvous_files,
)

if TYPE_CHECKING:
    import yaml

NAME = "kubernetes"
_PODS = "pods.json"
_JOB = "toposeat"
_RESOURCE = {
    "nvidia": "nvidia.com/gpu",
    "amd": "amd.com/gpu",
    "intel": "gpu.intel.com/i915",
}
_PORT = 29500
_NODE, _NODES, _ORDER = "TOPOSEAT_NODE", "TOPOSEAT_NODES", "TOPOSEAT_ORDER"
_RENDEZVOUS = "toposeat-rendezvous"  # a ConfigMap with its module
_MOUNT = "/opt/toposeat"
_NODE_FILE = "/tmp/toposeat-node"
_Variable = Mapping[str, object]
_FIELD: _Variable = {"name": _NODE, "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
_COMMENT = """toposeat: these nodes. All pods of a role have one template, so which node gets which
ranks cannot be said here: what starts the ranks orders them by the node of each pod."""
# sshd hands no variable of its container on, so each worker has its node in a file.
_ORDERING = f"""\
found=$(while read -r worker rest; do
  echo "$(ssh -n "${{worker%%:*}}" cat {_NODE_FILE}) $worker $rest"
done < /etc/mpi/hostfile)
for node in NODES; do
  echo "$found" | while read -r on worker; do [ "$on" != "$node" ] || echo "$worker"; done
done > /tmp/hostfile
"""
_TORCHRUN = (
    "the order of nodes comes at the start: torchrun --rdzv-backend=toposeat"
    " --rdzv-endpoint=HOST has it, in place of the backend that the command names"
)
_IN_IMAGE = (
    f"a TrainJob takes no volume of ours: have the files of {_RENDEZVOUS} on the PYTHONPATH of its"
    " image"
)
_MPIRUN = (
    f"the order of nodes comes at the start: before mpirun in the launcher's shell put"
    f' eval "${_ORDER}", and behind it --hostfile /tmp/hostfile'
)
_RAY = (
    "the order of nodes comes at the start: indices(group) of export --launcher ray says which"
    " bundle is on which node"
)
# The templates of pods that get GPUs, by API group and kind, and how they get the order of nodes.
KINDS: Mapping[tuple[str, str], tuple[tuple[str, ...], str]] = {
    ("batch", "Job"): (("spec.template",), _TORCHRUN),
    ("apps", "StatefulSet"): (("spec.template",), _TORCHRUN),
    ("jobset.x-k8s.io", "JobSet"): (("spec.replicatedJobs.*.template.spec.template",), _TORCHRUN),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): (
        ("spec.leaderWorkerTemplate.leaderTemplate", "spec.leaderWorkerTemplate.workerTemplate"),
        _TORCHRUN,
    ),
    ("kubeflow.org", "PyTorchJob"): (("spec.pytorchReplicaSpecs.*.template",), _TORCHRUN),
    ("kubeflow.org", "MPIJob"): (("spec.mpiReplicaSpecs.Worker.template",), _MPIRUN),
    ("trainer.kubeflow.org", "TrainJob"): ((), _TORCHRUN),
    ("batch.volcano.sh", "Job"): (("spec.tasks.*.template",), _TORCHRUN),
    ("ray.io", "RayCluster"): (("spec.workerGroupSpecs.*.template",), _RAY),
    ("ray.io", "RayJob"): (("spec.rayClusterSpec.workerGroupSpecs.*.template",), _RAY),
}


def export(job: Job) -> Export:
    """A headless service and the pods in the order of node ranks, with torchrun as their command.

    The controller of an indexed Job gives indices to pods wherever they are, so that no order of
    nodes can be said to it: pods are bound to nodes by name.
    """
    per_node = _ranks_per_node(job)
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": _JOB},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"job": _JOB},
        },
    }
    pods = [_pod(job, node, host, per_node) for node, host in enumerate(job.hosts)]
    document = {"apiVersion": "v1", "kind": "List", "items": [service, *pods]}
    return Export(
        launcher=NAME,
        files=(LaunchFile(name=_PODS, text=json.dumps(document, indent=1) + "\n"),),
        command=("kubectl", "apply", "-f", _PODS),
        notes=(
            f"name the image first: sed -i 's|IMAGE|registry/name:tag|' {_PODS}",
            "every pod asks for all devices of its node, since their numbers are those of the node",
            *notes_of(job, NAME),
        ),
    )


def _ranks_per_node(job: Job) -> int:
    per_node = ranks_per_node(job, NAME)
    if not job.hosts:
        raise UsageError(
            "the placement names no nodes: every pod would be the only one",
            hint="--launcher env gives the variables of one container",
        )
    return per_node


def in_manifest(job: Job, text: str, path: Path) -> Export:
    """The user's manifest with the nodes of the placement, and their order for what starts it."""
    manifest = Manifest(text, path)
    if _NODE in text:
        raise manifest.refusal("it has a plan already", hint="give the manifest as it was before")
    _ranks_per_node(job)
    notes: list[str] = []
    for each in manifest.objects:
        kind = manifest.word(each, "apiVersion").split("/")[0], manifest.word(each, "kind")
        if kind in KINDS:
            _Patch(manifest, each, job).of(kind[1])
            notes += [KINDS[kind][1], *((_IN_IMAGE,) if kind[1] == "TrainJob" else ())]
    if not notes:
        raise manifest.refusal(
            "no object of a kind that runs the ranks of a job",
            hint=f"known are {', '.join(kind for _, kind in KINDS)}; without --manifest pods are"
            " written and bound one by one",
        )
    lists = set(job.device_lists().values())
    if len(lists) > 1:
        notes.append("nodes have different orders of devices, which one template cannot say")
    files = [
        LaunchFile(name=f"{path.stem}.placed{path.suffix or '.yaml'}", text=manifest.patched())
    ]
    if _TORCHRUN in notes:
        files.append(_rendezvous(manifest))
    return Export(
        launcher=NAME,
        files=tuple(files),
        command=("kubectl", "apply", *(word for each in files for word in ("-f", each.name))),
        notes=(
            *dict.fromkeys(notes),
            "every pod has to ask for all devices of its node, so that each node gets one",
            *notes_of(job, NAME),
        ),
    )


def _rendezvous(manifest: Manifest) -> LaunchFile:
    """The module of torchrun's rendezvous as a ConfigMap, where the manifest's objects are."""
    names = {manifest.word(each, "metadata.namespace") for each in manifest.objects} - {""}
    where = {"namespace": min(names)} if names else {}
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _RENDEZVOUS, **where},
        "data": {path.name: path.read_text("utf-8") for path in rendezvous_files().values()},
    }
    return LaunchFile(name=f"{_RENDEZVOUS}.json", text=json.dumps(document, indent=1) + "\n")


@dataclass(frozen=True)
class _Patch:
    """What is added to one object of a manifest."""

    manifest: Manifest
    node: yaml.Node
    job: Job

    def of(self, kind: str) -> None:
        """Add it to an object of this kind."""
        if kind == "TrainJob":
            self._train_job()
            return
        group = self.manifest.word(self.node, "apiVersion").split("/")[0]
        paths, words = KINDS[group, kind]
        templates = [each for path in paths for each in self.manifest.at(self.node, path)]
        with_gpus = [each for each in templates if self._container(each, asked=True)]
        for template in with_gpus or templates:
            for spec in self.manifest.at(template, "spec"):
                self.manifest.add_below(spec, self._affinity(), _COMMENT)
            container = self._container(template)
            if container is None:
                continue
            env = [_FIELD, *self._devices()]
            if words == _TORCHRUN:
                env += self._with_rendezvous(template, container)
            self.manifest.add_below(container, {"env": env})
            if kind == "MPIJob":
                script = f"echo ${_NODE} > {_NODE_FILE} || :"
                hook = {"postStart": {"exec": {"command": ["sh", "-c", script]}}}
                self.manifest.add_below(container, {"lifecycle": hook})
        if kind == "MPIJob":
            if self.manifest.word(self.node, "spec.runLauncherAsWorker") == "true":
                raise self.manifest.refusal(
                    "the launcher is a worker, which no worker list of it can order",
                    hint="leave runLauncherAsWorker out, and add a worker",
                )
            order = {"name": _ORDER, "value": _ORDERING.replace("NODES", " ".join(self.job.hosts))}
            for launcher in self.manifest.at(self.node, "spec.mpiReplicaSpecs.Launcher.template"):
                container = self._container(launcher)
                if container is not None:
                    self.manifest.add_below(container, {"env": [order]})

    def _with_rendezvous(self, template: yaml.Node, container: yaml.Node) -> list[_Variable]:
        """Mount the rendezvous that has the order; variables by which torchrun finds both."""
        paths = [
            self.manifest.word(each, "value")
            for each in self.manifest.at(container, "env.*")
            if self.manifest.word(each, "name") == "PYTHONPATH"
        ]
        if any(_MOUNT not in each.split(":") for each in paths):
            raise self.manifest.refusal(
                "PYTHONPATH is set, and torchrun finds the rendezvous there",
                hint=f"put {_MOUNT}: in front of its value",
            )
        mount = {"name": _RENDEZVOUS, "mountPath": _MOUNT}
        self.manifest.add_below(container, {"volumeMounts": [mount]})
        own = rendezvous_files()
        items = [{"key": path.name, "path": name} for name, path in own.items()]
        volume = {"name": _RENDEZVOUS, "configMap": {"name": _RENDEZVOUS, "items": items}}
        for spec in self.manifest.at(template, "spec"):
            self.manifest.add_below(spec, {"volumes": [volume]})
        found: list[_Variable] = [] if paths else [{"name": "PYTHONPATH", "value": _MOUNT}]
        return [self._order(), *found]

    def _affinity(self) -> Mapping[str, object]:
        names = {"key": "kubernetes.io/hostname", "operator": "In", "values": [*self.job.hosts]}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [names]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        return {"affinity": {"nodeAffinity": required}}

    def _order(self) -> _Variable:
        return {"name": _NODES, "value": json.dumps({"order": self.job.hosts, "groups": {}})}

    def _devices(self) -> list[_Variable]:
        """The order of devices where it is not their own."""
        devices = self.job.device_variables()
        order = (devices.get(self.job.variable or "") or "").split(",")
        moved = order != sorted(order, key=lambda each: (len(each), each))
        return [{"name": name, "value": value} for name, value in devices.items() if moved]

    def _container(self, template: yaml.Node, *, asked: bool = False) -> yaml.Node | None:
        """The container that asks for GPUs; the first one where none does and none is `asked`."""
        containers = list(self.manifest.at(template, "spec.containers.*"))
        for each in containers:
            limits = self.manifest.at(each, "resources.limits")
            names = [name.value for of in limits for name, _ in of.value if of.id == "mapping"]
            claims = any(self.manifest.at(each, "resources.claims.*"))
            if claims or any(name in _RESOURCE.values() for name in names):
                return each
        return containers[0] if containers and not asked else None

    def _train_job(self) -> None:
        """A TrainJob has its pods from a runtime, which it patches: by one of two fields."""
        affinity, add = self._affinity(), self.manifest.add_below
        old = {"targetJobs": [{"name": "node"}], "spec": affinity}
        of_pods: object = {"spec": {"template": {"spec": affinity}}}
        jobs = {"replicatedJobs": [{"name": "node", "template": of_pods}]}
        new = {"manager": "toposeat/export", "trainingRuntimeSpec": {"template": {"spec": jobs}}}
        for spec in self.manifest.at(self.node, "spec"):
            if any(self.manifest.at(spec, "podTemplateOverrides")):
                add(spec, {"podTemplateOverrides": [old]}, _COMMENT)
            else:
                add(spec, {"runtimePatches": [new]}, _COMMENT)
            add(spec, {"trainer": {"env": [_FIELD, self._order(), *self._devices()]}})


def _pod(job: Job, node: int, host: str, per_node: int) -> dict[str, object]:
    name = f"{_JOB}-{node}"
    command = [
        *("torchrun", f"--nnodes={len(job.hosts)}", f"--nproc-per-node={per_node}"),
        *(f"--node-rank={node}", "--rdzv-backend=static"),
        *(f"--master-addr={_JOB}-0.{_JOB}", f"--master-port={_PORT}", job.program),
    ]
    container: dict[str, object] = {"name": "main", "image": "IMAGE", "command": command}
    lists = job.device_lists()
    if lists and job.variable is not None:
        order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if job.placement.vendor == "nvidia" else {}
        variables = {**order, job.variable: lists[host][0]}
        container["env"] = [{"name": key, "value": value} for key, value in variables.items()]
    devices = len(job.placement.devices_of_host.get(host, ())) or per_node
    resource = _RESOURCE.get(job.placement.vendor)
    if resource:
        container["resources"] = {"limits": {resource: devices}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"job": _JOB}},
        "spec": {
            "hostname": name,
            "subdomain": _JOB,
            "restartPolicy": "Never",
            "nodeSelector": {"kubernetes.io/hostname": host},
            "containers": [container],
        },
    }


LAUNCHERS = ()
EXPORTS = {NAME: ("pods bound to nodes, with node ranks", export)}
