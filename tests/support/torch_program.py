"""What PyTorch jobs do to be recorded: `torch_program.py CASE STEPS [BACKEND]`, under torchrun.

It knows nothing of toposeat. What each case moves, `torch_bytes.py` says. With nccl all ranks share
the first GPU. If TRACES is set, what the profiler recorded is left there.
"""

import gc
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn, profiler
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

HIDDEN, BATCH = 32, 8
ACTIVITY = profiler.ProfilerActivity.CPU
BACKEND = sys.argv[3] if len(sys.argv) > 3 else "gloo"
DEVICE = torch.device("cuda", 0) if BACKEND == "nccl" else torch.device("cpu")


def layer():
    return nn.Linear(HIDDEN, HIDDEN, bias=False)


def train(model, steps):
    """Steps of one micro-batch, with layers in front that need the gradient of its input."""
    for _ in range(steps):
        model(torch.ones(BATCH, HIDDEN, requires_grad=True)).sum().backward()


def ddp(steps):
    train(DistributedDataParallel(nn.Sequential(layer(), layer())), steps)


def tp_fsdp(steps):
    """One layer of a transformer by tensor parallelism, its parts sharded over the other ranks."""
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(DEVICE.type, (2, 2), mesh_dim_names=("dp", "tp"))
    model = tensor_parallel(mesh["tp"])
    for each in model:
        fully_shard(each, mesh=mesh["dp"])
    train(fully_shard(model, mesh=mesh["dp"]), steps)


def tensor_parallel(mesh):
    """Two pairs of matrices, as those of attention and of the feed-forward part."""
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    model = nn.Sequential(layer(), layer(), layer(), layer())
    plan = {"0": ColwiseParallel(), "1": RowwiseParallel()}
    plan |= {"2": ColwiseParallel(), "3": RowwiseParallel()}
    return parallelize_module(model, mesh, plan, src_data_rank=None)


def fsdp(steps):
    from torch.distributed.fsdp import fully_shard

    model = nn.Sequential(layer(), layer())
    for each in model:
        fully_shard(each)
    train(fully_shard(model), steps)


def tp(steps):
    mesh = init_device_mesh(DEVICE.type, (dist.get_world_size(),), mesh_dim_names=("tp",))
    train(tensor_parallel(mesh["tp"]), steps)


def pp(steps):
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    rank, stages = dist.get_rank(), dist.get_world_size()
    part = torch.ones(BATCH // 4, HIDDEN, requires_grad=True)
    stage = PipelineStage(layer(), rank, stages, DEVICE, input_args=(part,), output_args=(part,))
    schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=lambda out, _: out.sum())
    whole = torch.ones(BATCH, HIDDEN)
    for _ in range(steps):
        if rank == 0:
            schedule.step(whole)
        elif rank == stages - 1:
            schedule.step(target=whole)
        else:
            schedule.step()


def messages(steps):
    """A ring in pairs, then a message from the last rank to the first."""
    rank, world = dist.get_rank(), dist.get_world_size()
    given, got = torch.ones(HIDDEN), torch.empty(HIDDEN)
    for _ in range(steps):
        both = [
            dist.P2POp(dist.isend, given, (rank + 1) % world),
            dist.P2POp(dist.irecv, got, (rank - 1) % world),
        ]
        for each in dist.batch_isend_irecv(both):
            each.wait()
        if rank == world - 1:
            dist.send(given[:5], 0)
        elif rank == 0:
            dist.recv(got[:5], world - 1)


def moe(steps):
    """Experts that get unequal numbers of rows; the same both ways."""
    rank, world = dist.get_rank(), dist.get_world_size()
    given = [rank + peer + 1 for peer in range(world)]
    rows = torch.ones(sum(given), HIDDEN)
    for _ in range(steps):
        dist.all_to_all_single(torch.empty_like(rows), rows, given, given)
        dist.all_to_all_single(torch.empty(world * 2), torch.ones(world * 2))
        dist.all_to_all([torch.empty(5) for _ in range(world)], [torch.ones(5)] * world)


def moe_even(steps):
    rows = torch.ones(dist.get_world_size() * BATCH, HIDDEN)
    for _ in range(steps):
        dist.all_to_all_single(torch.empty_like(rows), rows)
        dist.all_to_all_single(torch.empty_like(rows), rows)


def rooted(steps):
    rank, world = dist.get_rank(), dist.get_world_size()
    odd = dist.new_group([3, 1])
    part = torch.ones(5)
    for _ in range(steps):
        dist.broadcast(part, 2)
        dist.reduce(part, 1)
        dist.gather(part, [torch.empty(5) for _ in range(world)] if rank == 3 else None, dst=3)
        dist.scatter(part, [torch.ones(5) for _ in range(world)] if rank == 0 else None, src=0)
        if rank in (1, 3):
            dist.broadcast(torch.ones(7), 3, group=odd)
        dist.all_gather([torch.empty(5) for _ in range(world)], part)
        dist.barrier()


def grouped(steps):
    """A group that stays, and groups that come and go."""
    rank = dist.get_rank()
    pair = dist.new_group([1, 3])
    for _ in range(steps):
        dist.all_reduce(torch.ones(100))
        if rank in (1, 3):
            dist.all_reduce(torch.ones(7), group=pair)
        dist.all_gather([torch.empty(5) for _ in range(dist.get_world_size())], torch.ones(5))
        for members in ([0, 1], [2, 3], [1, 2]):
            group = dist.new_group(members)
            if rank in members:
                dist.all_reduce(torch.ones(3), group=group)
                dist.destroy_process_group(group)


def killed(steps):
    for _ in range(steps):
        dist.all_reduce(torch.ones(1000))
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(torch.ones(1000))


def waiting(steps):
    for _ in range(steps):
        dist.all_reduce(torch.ones(2))
    dist.barrier()
    if dist.get_rank() == 0:
        print("waiting", flush=True)
    time.sleep(100)


def failed(steps):
    dist.all_reduce(torch.ones(steps))
    sys.exit(7)


def on_one_gpu():
    """Let NCCL take every rank for a host of its own, which may use the same GPU."""
    os.environ |= {
        "NCCL_HOSTID": f"host{os.environ['RANK']}",
        "NCCL_NET": "Socket",
        "NCCL_SOCKET_IFNAME": "lo",
        "NCCL_P2P_DISABLE": "1",
        "NCCL_SHM_DISABLE": "1",
    }
    torch.cuda.set_device(DEVICE)
    torch.zeros(1, device=DEVICE)  # a mesh would choose a device by LOCAL_RANK until one is in use
    torch.set_default_device(DEVICE)


CASES = (
    *(ddp, fsdp, tp, tp_fsdp, pp, messages, moe, moe_even, rooted, grouped),
    *(killed, waiting, failed),
)

if __name__ == "__main__":
    if BACKEND == "nccl":
        on_one_gpu()
    torch.set_default_dtype(torch.bfloat16)
    dist.init_process_group(BACKEND)
    torch.manual_seed(0)
    run = next(case for case in CASES if case.__name__ == sys.argv[1])
    if "TRACES" in os.environ:
        with profiler.profile(activities=[ACTIVITY], record_shapes=True) as traced:
            run(int(sys.argv[2]))
        folder = Path(os.environ["TRACES"])
        folder.mkdir(exist_ok=True)
        traced.export_chrome_trace(str(folder / f"{dist.get_rank()}.trace.json"))
    else:
        run(int(sys.argv[2]))
    dist.barrier()
    gc.collect()
    dist.destroy_process_group()
    time.sleep(0.3)  # torch itself may abort when a gloo thread outlives the interpreter
