"""Lines of the launchers of ML frameworks: accelerate, DeepSpeed, vLLM, SGLang.

All of them number ranks node by node, in the order of a node rank or of a host file, and local rank
i takes the i-th visible device. The environment lists these, but DeepSpeed sets and sorts them.
"""

from __future__ import annotations

import re
from dataclasses import replace

from toposeat.errors import UsageError
from toposeat.launch.launchers.seats import DEFAULT_PROGRAM, Export, Job, LaunchFile
from toposeat.launch.launchers.torchrun import (
    PORT,
    first_host,
    notes_of,
    on_each_node,
    on_one_node,
    ranks_per_node,
)

_MODEL = "MODEL"  # what stands in the line until a model is named with --program


def accelerate(job: Job) -> Export:
    """`accelerate launch` with `--machine_rank`; its static rendezvous is torchrun's."""
    ranks_per_node(job, "accelerate")
    launch = ("accelerate", "launch", "--multi_gpu", f"--num_processes={job.ranks}")
    if len(job.seats_of_host) == 1:
        return on_one_node(job, "accelerate", (*launch, "--num_machines=1", job.program))
    last = (
        f"exec {' '.join(launch)} --num_machines={len(job.hosts)} --machine_rank=$node \\\n"
        f"  --rdzv_backend=static --main_process_ip={first_host(job)} --main_process_port={PORT}"
        ' "$@"'
    )
    return on_each_node(job, "accelerate", last, (job.program,))


def vllm(job: Job) -> Export:
    """`vllm serve`: on several nodes by its own processes, with `--node-rank`, not by Ray."""
    ranks_per_node(job, "vllm")
    sizes = _sizes(job)
    layout = ("--tensor-parallel-size", sizes[0], "--pipeline-parallel-size", sizes[1])
    if len(job.seats_of_host) == 1:
        return _told(on_one_node(job, "vllm", ("vllm", "serve", _model(job), *layout)), job)
    last = (
        "headless=\n"
        '[ "$node" = 0 ] || headless=--headless\n'
        f'exec vllm serve "$@" --nnodes {len(job.hosts)} --node-rank $node $headless \\\n'
        f"  --master-addr {first_host(job)} --master-port {PORT}"
    )
    return _told(on_each_node(job, "vllm", last, (_model(job), *layout)), job)


def sglang(job: Job) -> Export:
    """`sglang.launch_server` with `--node-rank` and `--dist-init-addr`."""
    ranks_per_node(job, "sglang")
    sizes = _sizes(job)
    server = ("python3", "-m", "sglang.launch_server")
    words = ("--model-path", _model(job), "--tp-size", sizes[0], "--pp-size", sizes[1])
    if len(job.seats_of_host) == 1:
        return _told(on_one_node(job, "sglang", (*server, *words)), job)
    last = (
        f'exec {" ".join(server)} "$@" --nnodes {len(job.hosts)} --node-rank $node \\\n'
        f"  --dist-init-addr {first_host(job)}:{PORT}"
    )
    return _told(on_each_node(job, "sglang", last, words), job)


def deepspeed(job: Job) -> Export:
    """A host file: ranks follow its lines, and `--include` chooses the devices of every host.

    On every node DeepSpeed's launcher sets CUDA_VISIBLE_DEVICES to these devices in ascending
    order, whatever was set before (0.19.8: run; older ones kept the order of `--include`). Other
    variables reach the nodes by `.deepspeed_env`.
    """
    per_node = ranks_per_node(job, "deepspeed")
    hosts = job.hosts or ("localhost",)
    lists = {host: each[0].split(",")[:per_node] for host, each in job.device_lists().items()}
    slots = [lists.get(host, [str(i) for i in range(per_node)]) for host in job.seats_of_host]
    if any(not slot.isdigit() for each in slots for slot in each):
        raise UsageError(
            "deepspeed numbers devices, and these are slices of a GPU", hint="--launcher torchrun"
        )
    if any(list(map(int, each)) != sorted(map(int, each)) for each in slots):
        raise UsageError(
            "deepspeed gives local ranks the devices of a node in ascending order, whatever"
            " --include and CUDA_VISIBLE_DEVICES say",
            hint="start the same program with --launcher torchrun, which keeps their order",
        )
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} if job.placement.vendor == "nvidia" else {}
    if len(hosts) == 1:
        include = "localhost:" + ",".join(slots[0])
        return Export(
            launcher="deepspeed",
            command=("deepspeed", "--include", include, job.program),
            environment=order,
            notes=notes_of(job, "deepspeed"),
        )
    pairs = list(zip(hosts, slots, strict=True))
    lines = "".join(f"{host} slots={max(map(int, each)) + 1}\n" for host, each in pairs)
    include = "@".join(f"{host}:{','.join(each)}" for host, each in pairs)
    variables = "".join(f"{name}={value}\n" for name, value in order.items())
    return Export(
        launcher="deepspeed",
        files=(
            LaunchFile(name="hostfile", text=lines),
            *((LaunchFile(name=".deepspeed_env", text=variables),) if variables else ()),
        ),
        command=(
            *("deepspeed", "--hostfile", "hostfile", "--include", include),
            *("--master_addr", hosts[0], job.program),
        ),
        notes=("run this line once: it starts the hosts by ssh", *notes_of(job, "deepspeed")),
    )


def _model(job: Job) -> str:
    return _MODEL if job.program == DEFAULT_PROGRAM else job.program


def _layout(job: Job) -> dict[str, int]:
    """Sizes of an `llm:` pattern that the placement was made for; empty for other traffic."""
    name = job.placement.metadata.get("traffic", "")
    if not name.startswith("llm:"):
        return {}
    order = re.search(r"[:,]order=([a-z-]+)", name)
    if order and order[1].find("pp") < order[1].find("tp"):
        raise UsageError(
            f"order={order[1]}: servers number tensor-parallel ranks first",
            hint="map without order=",
        )
    return {key: int(size) for key, size in re.findall(r"[:,](tp|pp|dp)=(\d+)", name)}


def _sizes(job: Job) -> tuple[str, str]:
    """Tensor and pipeline parallel size, as words of the line.

    One server has tensor x pipeline ranks, numbered in this order. Where the traffic does not say
    them, all ranks are one tensor-parallel group.
    """
    sizes = _layout(job)
    tensor, pipeline = sizes.get("tp", 1), sizes.get("pp", 1)
    if not sizes:
        tensor = job.ranks
    if tensor * pipeline != job.ranks:
        raise UsageError(
            f"one server has tensor x pipeline ranks, here {tensor} x {pipeline}, and the placement"
            f" is for {job.ranks}",
            hint="map one replica (dp=1) and start one server for each",
        )
    return str(tensor), str(pipeline)


def _told(export: Export, job: Job) -> Export:
    """With a note where sizes were not told."""
    if _layout(job):
        return export
    told = "the traffic names no layout: all ranks are taken as one tensor-parallel group"
    return replace(export, notes=(told, *export.notes))


LAUNCHERS = ()
EXPORTS = {
    "accelerate": ("accelerate launch: machine ranks, device order", accelerate),
    "deepspeed": ("DeepSpeed's host file and --include", deepspeed),
    "vllm": ("vllm serve: node ranks, device order", vllm),
    "sglang": ("sglang.launch_server: node ranks, device order", sglang),
}
