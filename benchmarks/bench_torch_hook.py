"""What the recorder of `torch.distributed` costs a training job, in CPU seconds.

    TOPOSEAT_TEST_TORCH=PYTHON python -m benchmarks.bench_torch_hook [ROUNDS]

Two ranks with gloo train a model by DDP, then by FSDP2, in blocks of a few steps: in every round a
block with the recorder's kernels and two without, in an order that turns; the second is the A/A
control. Each figure is the sum over the ranks of the CPU time of their processes, all threads.
Last, the cost of one call: an all-reduce of a single rank, the least of many rounds.
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


class Switch:
    """The recorder's kernels, put in and taken out."""

    def __init__(self) -> None:
        from torch.distributed import distributed_c10d  # noqa: PLC0415

        spec = importlib.util.spec_from_file_location("recorder", RECORDER)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self._recorder = module.Recorder(distributed_c10d)

    def set(self, on: bool) -> None:
        if on:
            self._recorder.install()
        elif self._recorder._library is not None:
            self._recorder._library._destroy()
            self._recorder._library = None

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

    def block(model: Any, on: bool) -> float:
        switch.set(on)
        begin = time.process_time()
        for _ in range(STEPS):
            model(data).sum().backward()
        return time.process_time() - begin

    for name, model in models.items():
        block(model, True)
        before = switch.calls
        block(model, True)
        calls = (switch.calls - before) / STEPS
        taken: dict[str, list[float]] = {"on": [], "off": [], "again": []}
        for turn in range(rounds):
            for place in range(3):
                which = list(taken)[(turn + place) % 3]
                taken[which].append(block(model, which == "on"))
        told = {"calls": calls, **taken}
        Path(sys.argv[3], f"{name}-{dist.get_rank()}").write_text(json.dumps(told))
    alone = [dist.new_group([rank]) for rank in range(2)][dist.get_rank()]
    one, best = torch.ones(1000), {True: 1.0, False: 1.0}
    for turn in range(2 * ROUNDS):
        switch.set(turn % 2 == 0)
        begin = time.perf_counter()
        for _ in range(CALLS):
            dist.all_reduce(one, group=alone)
        best[turn % 2 == 0] = min(best[turn % 2 == 0], (time.perf_counter() - begin) / CALLS)
    Path(sys.argv[3], f"call-{dist.get_rank()}").write_text(json.dumps([best[True], best[False]]))
    dist.barrier()
    dist.destroy_process_group()


def _share(these: list[float], those: list[float]) -> str:
    """The mean of the pairs' differences with its 95 % interval."""
    shares = [(a - b) / b for a, b in zip(these, those, strict=True)]
    half = 1.96 * statistics.stdev(shares) / len(shares) ** 0.5
    return f"{statistics.mean(shares):+.2%} +- {half:.2%}"


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
        call = json.loads(Path(folder, "call-0").read_text())
        print(f"one call: {call[0] * 1e6:.1f} us with, {call[1] * 1e6:.1f} us without")


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(int(sys.argv[2]))
    else:
        main()
