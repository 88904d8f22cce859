"""Kubernetes: pods bound to nodes, with their node ranks."""

from __future__ import annotations

import json

from toposeat.errors import UsageError
from toposeat.launch.launchers.seats import Export, Job, LaunchFile
from toposeat.launch.launchers.torchrun import notes_of, ranks_per_node
from toposeat.model.visible_list import visible_variables

_NAME = "kubernetes"
_PODS = "pods.json"
_JOB = "toposeat"
_RESOURCE = {
    "nvidia": "nvidia.com/gpu",
    "amd": "amd.com/gpu",
    "intel": "gpu.intel.com/i915",
}
_PORT = 29500


def export(job: Job) -> Export:
    """A headless service and the pods in the order of node ranks, with torchrun as their command.

    The controller of an indexed Job gives indices to pods wherever they are, so that no order of
    nodes can be said to it: pods are bound to nodes by name.
    """
    per_node = ranks_per_node(job, _NAME)
    if not job.hosts:
        raise UsageError(
            "the placement names no nodes: every pod would be the only one",
            hint="--launcher env gives the variables of one container",
        )
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
        launcher=_NAME,
        files=(LaunchFile(name=_PODS, text=json.dumps(document, indent=1) + "\n"),),
        command=("kubectl", "apply", "-f", _PODS),
        notes=(
            f"name the image first: sed -i 's|IMAGE|registry/name:tag|' {_PODS}",
            "every pod asks for all devices of its node, since their numbers are those of the node",
            *notes_of(job, _NAME),
        ),
    )


def _pod(job: Job, node: int, host: str, per_node: int) -> dict[str, object]:
    name = f"{_JOB}-{node}"
    command = [
        *("torchrun", f"--nnodes={len(job.hosts)}", f"--nproc-per-node={per_node}"),
        *(f"--node-rank={node}", "--rdzv-backend=static"),
        *(f"--master-addr={_JOB}-0.{_JOB}", f"--master-port={_PORT}", job.program),
    ]
    container: dict[str, object] = {"name": "main", "image": "IMAGE", "command": command}
    lists = job.device_lists()
    if lists:
        variables = visible_variables(job.placement.vendor, [lists[host][0]])
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
EXPORTS = {_NAME: ("pods bound to nodes, with node ranks", export)}
