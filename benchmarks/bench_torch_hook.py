"""What the recorder of `torch.distributed` costs a training job, in CPU seconds.

    TOPOSEAT_TEST_TORCH=PYTHON python -m benchmarks.bench_torch_hook [ROUNDS]

Two ranks with gloo train a model by DDP, then by FSDP2, in blocks of a few steps: in every round a
block with the recorder's kernels and two without, in an order that turns; the last is the A/A
control. Each figure is the sum over the ranks of the CPU time of their processes, all threads; what
is printed is the median of the pairs' differences. Last, what one call costs this process: calls of
PyTorch's "fake" backend, which moves nothing, without the recorder, with kernels that only pass
them on, and with the recorder; the least CPU time of many rounds.
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RECORDER = ROOT / "src" / "toposeat" / "launch" / "python_hook" / "recorder.py"
LAYERS, HIDDEN, BATCH, STEPS = 8, 512, 256, 4
CALLS, ROUNDS = 500, 40
STATES = ("off", "empty", "on", "again")


class Switch:
    """The recorder's kernels, put in and taken out."""

    def __init__(self) -> None:
        from torch.distributed import distributed_c10d  # noqa: PLC0415

        spec = importlib.util.spec_from_file_location("recorder", RECORDER)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self._operators = module._OPERATORS
        self._recorder = module.Recorder(distributed_c10d)

    def set(self, state: str) -> None:
        """Without kernels ("off"), or with them ("on")."""
        recorder = self._recorder
        if recorder._library is not None:
            recorder._library._destroy()
            recorder._library = None
        if state == "on":
            recorder.install()

    def empty(self) -> Any:
        """Kernels that pass every call on and count nothing; to be destroyed."""
        import torch  # noqa: PLC0415

        library = torch.library.Library("c10d", "IMPL")
        after = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)
        for name in self._operators:
            operator = getattr(torch.ops.c10d, name, None)
            if operator is not None:
                pass_on = operator.default.redispatch
                kernel = lambda keys, *args, to=pass_on: to(keys & after, *args)  # noqa: E731
                library.impl(name, kernel, "BackendSelect", with_keyset=True)
        return library

    @property
    def calls(self) -> int:
        return sum(self._recorder._file.table[2::2]) if self._recorder._file else 0


def work(rounds: int) -> None:
    """One rank: prints the CPU seconds of its blocks."""
    import torch  # noqa: PLC0415
    import torch.distributed as dist  # noqa: PLC0415
    from torch import nn  # noqa: PLC0415
    from torch.distributed.fsdp import fully_shard  # noqa: PLC0415

    dist.init_process_group("gloo")
    switch = Switch()

    def layers() -> Any:
        return nn.Sequential(*(nn.Linear(HIDDEN, HIDDEN) for _ in range(LAYERS)))

    def sharded() -> Any:
        model = layers()
        for each in model:
            fully_shard(each)
        return fully_shard(model)

    models = {"DDP": nn.parallel.DistributedDataParallel(layers()), "FSDP2": sharded()}
    data = torch.ones(BATCH, HIDDEN)

    def block(model: Any, state: str) -> float:
        switch.set(state)
        model(data).sum().backward()  # the first calls after a change fill caches of PyTorch
        begin = time.process_time()
        for _ in range(STEPS):
            model(data).sum().backward()
        return time.process_time() - begin

    for name, model in models.items():
        block(model, "on")
        before = switch.calls
        block(model, "on")
        calls = (switch.calls - before) / (STEPS + 1)
        taken: dict[str, list[float]] = {each: [] for each in ("on", "off", "again")}
        for turn in range(rounds):
            for place in range(3):
                which = list(taken)[(turn + place) % 3]
                taken[which].append(block(model, which))
        told = {"calls": calls, **taken}
        Path(sys.argv[3], f"{name}-{dist.get_rank()}").write_text(json.dumps(told))
    Path(sys.argv[3], f"call-{dist.get_rank()}").write_text(json.dumps(_calls(switch)))
    dist.barrier()
    dist.destroy_process_group()


def _calls(switch: Switch) -> dict[str, list[float]]:
    """CPU microseconds of a call, by state: see `STATES`."""
    import torch  # noqa: PLC0415
    import torch.distributed as dist  # noqa: PLC0415
    from torch.testing._internal.distributed import fake_pg  # noqa: F401, PLC0415

    group = dist.new_group(backend="fake")
    one, all_ones = torch.ones(1000), torch.ones(2 * 1000)
    kinds = {
        "all_reduce": lambda: dist.all_reduce(one, group=group),
        "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(all_ones, one, group=group),
        "isend": lambda: dist.isend(one, 1 - dist.get_rank(), group=group),
    }
    best = {kind: [1e6] * len(STATES) for kind in kinds}
    for _ in range(ROUNDS):
        for place, state in enumerate(STATES):
            switch.set(state)
            empty = switch.empty() if state == "empty" else None
            for kind, call in kinds.items():
                call()
                begin = time.process_time()
                for _ in range(CALLS):
                    call()
                taken = (time.process_time() - begin) / CALLS * 1e6
                best[kind][place] = min(best[kind][place], taken)
            if empty is not None:
                empty._destroy()
    return best


def _share(these: list[float], those: list[float]) -> str:
    """The median of the pairs' differences with its 95 % interval, by order statistics."""
    shares = sorted((a - b) / b for a, b in zip(these, those, strict=True))
    middle, half = len(shares) / 2, 0.98 * len(shares) ** 0.5
    low = shares[max(0, int(middle - half))]
    high = shares[min(len(shares) - 1, int(middle + half))]
    return f"{statistics.median(shares):+.2%} ({low:+.2%} to {high:+.2%})"


def main() -> None:
    from benchmarks.machine import describe  # noqa: PLC0415

    print(describe())
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    python = os.environ.get("TOPOSEAT_TEST_TORCH", sys.executable)
    with tempfile.TemporaryDirectory() as folder:
        line = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOPOSEAT_PROFILE_DIR": folder}
        subprocess.run([*line, __file__, "work", str(rounds), folder], env=environment, check=True)
        for name in ("DDP", "FSDP2"):
            ranks = [json.loads(Path(folder, f"{name}-{rank}").read_text()) for rank in range(2)]
            on, off, again = (
                [sum(each) for each in zip(*(rank[key] for rank in ranks), strict=True)]
                for key in ("on", "off", "again")
            )
            print(
                f"{name}: {statistics.mean(off) / STEPS * 1e3:.1f} ms of CPU a step,"
                f" {ranks[0]['calls']:g} calls; with the recorder {_share(on, off)};"
                f" without it again {_share(again, off)}; {rounds} rounds"
            )
        print("us of CPU per call: without, kernels that only pass on, recorded, without again")
        for kind, figures in json.loads(Path(folder, "call-0").read_text()).items():
            print(f"{kind}: {', '.join(f'{figure:.1f}' for figure in figures)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(int(sys.argv[2]))
    else:
        main()
