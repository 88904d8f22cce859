"""Programs that start their ranks as ML servers do: `starters.py HOW WORK RANKS`.

deepspeed   a launcher that sorts the visible devices, and sets the ranks' environment
spawn       vLLM and SGLang: processes of multiprocessing, spawned; a rank is an argument
fork        vLLM: the same, forked after torch.distributed was imported
ray         workers that were started before, each told its rank and its own device later
local-rank  spawned, with LOCAL_RANK in the environment

It knows nothing of toposeat. WORK is `torch` (an all-reduce over gloo), `device` (every rank says
which device it uses), `both`, or `killed` (both, and then the ranks are killed).
"""

import ctypes
import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys

COUNT = 5  # elements that are reduced


def torch(rank, size, port, _device):
    import torch as t
    import torch.distributed as dist

    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size
    )
    dist.all_reduce(t.ones(COUNT))
    dist.barrier()
    dist.destroy_process_group()


def device(rank, _size, _port, index):
    driver = ctypes.CDLL("libcuda.so.1")
    handle, pci = ctypes.c_int(), ctypes.create_string_buffer(32)
    driver.cuInit(0)
    driver.cuDeviceGet(ctypes.byref(handle), index)
    driver.cuDeviceGetPCIBusId(pci, len(pci), handle)
    context = ctypes.c_void_p()
    driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle)
    driver.cuCtxSetCurrent(context)
    listed = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    os.write(1, f"rank={rank} pci={pci.value.decode().lower()} list={listed}\n".encode())


def both(rank, size, port, index):
    import torch.distributed as dist

    device(rank, size, port, index)
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=size
    )
    dist.barrier()
    dist.destroy_process_group()


def killed(rank, size, port, index):
    both(rank, size, port, index)
    os.kill(os.getpid(), signal.SIGKILL)


WORKS = {
    "torch": torch,
    "device": device,
    "both": both,
    "killed": killed,
}


def _deepspeed(work, size, port):
    listed = os.environ.pop("CUDA_VISIBLE_DEVICES", "")
    known = sorted(listed.split(",")) if listed else [str(each) for each in range(size)]
    children = []
    for rank in range(size):
        own = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "MASTER_PORT": port}
        env = {**os.environ, **{name: str(value) for name, value in own.items()}}
        env["CUDA_VISIBLE_DEVICES"] = ",".join(known)
        line = [sys.executable, "-u", __file__, "--child", work]
        children.append(subprocess.Popen(line, env=env))
    return [child.wait() for child in children]


def _child(work):
    numbers = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
    WORKS[work](*numbers, int(os.environ["LOCAL_RANK"]))


def _processes(method, work, size, port, *, tell=False):
    if method == "fork" and work == "torch":
        import torch.distributed  # noqa: F401
    context = multiprocessing.get_context(method)
    children = []
    for rank in range(size):
        if tell:
            os.environ["LOCAL_RANK"] = str(rank)
        child = context.Process(target=WORKS[work], args=(rank, size, port, rank))
        child.start()
        children.append(child)
    for child in children:
        child.join()
    return [child.exitcode or 0 for child in children]


def _ray(work, size, port):
    listed = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    known = listed.split(",") if listed else [str(each) for each in range(size)]
    line = [sys.executable, __file__, "--actor"]
    pipe = subprocess.PIPE
    actors = [subprocess.Popen(line, stdin=pipe, stdout=pipe, text=True) for _ in range(size)]
    for rank, actor in enumerate(actors):
        assert actor.stdin is not None
        print(json.dumps([work, rank, size, port, known[rank]]), file=actor.stdin, flush=True)
    for actor in actors:
        for said in iter(actor.stdout.readline, "done\n"):
            print(said, end="", flush=True)
        actor.send_signal(signal.SIGTERM)
    return [0 if actor.wait() == -signal.SIGTERM else 1 for actor in actors]


def _actor():
    work, rank, size, port, own = json.loads(sys.stdin.readline())
    os.environ["CUDA_VISIBLE_DEVICES"] = own
    WORKS[work](rank, size, port, 0)
    print("done", flush=True)
    sys.stdin.read()


def _free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


HOW = {
    "deepspeed": _deepspeed,
    "spawn": lambda *words: _processes("spawn", *words),
    "fork": lambda *words: _processes("fork", *words),
    "ray": _ray,
    "local-rank": lambda *words: _processes("spawn", *words, tell=True),
}

if __name__ == "__main__":
    if sys.argv[1] == "--child":
        _child(sys.argv[2])
    elif sys.argv[1] == "--actor":
        _actor()
    else:
        sys.exit(max(HOW[sys.argv[1]](sys.argv[2], int(sys.argv[3]), _free_port())))
