"""Which GPUs Slurm shows a task of srun, and what to type where a plan needs others.

Slurm gives every task GPUs of its own choice under `--gpus-per-task`, `--ntasks-per-gpu` and
`--gpu-bind`: no plan can say which, and with cgroups no rank can take another. Under
`--gpus-per-node` or `--gres` all tasks of a node see the same GPUs, in one order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from toposeat.launch.launchers.launcher import LaunchLine, Option
from toposeat.model.record import Record

_PER_TASK = ("gpus-per-task", "tres-per-task")
_BIND = ("gpu-bind", "tres-bind")
_PER_NODE = ("gpus-per-node", "gres", "tres-per-node")
_IN_ALL = ("gpus", "G", "tres-per-job")
_OPTIONS = (*_PER_TASK, "ntasks-per-gpu", *_BIND, *_PER_NODE, *_IN_ALL)
_NUMBER = re.compile(r"(?:^|[:=])([0-9]{1,6})$")


class Conflict(Record, frozen=True, kw_only=True):
    """What shows tasks too few GPUs: an option, or a variable that stands for one."""

    option: Option | None = None
    variable: str = ""
    said: str
    why: str


def conflicts(
    line: LaunchLine,
    environment: Mapping[str, str],
    *,
    tasks: int,
    used: int,
    in_all: int,
    devices: tuple[int, ...],
) -> list[Conflict]:
    """What keeps tasks of srun from the GPUs of a plan; `env -u NAME` in front of srun counts.

    The plan has `in_all` GPUs. `tasks` and GPUs that are `used` are those of the node that has
    most; `devices` are their numbers by local rank, where all nodes have the same.
    """
    given = list(_given(line, environment))
    unbound = any(name in _BIND and _is_none(value) for name, value, _, _ in given)
    found = []
    for name, value, option, variable in given:
        why = ""
        if name in _BIND:
            if not _is_none(value) and not _maps(value, devices):
                why = "Slurm then chooses which GPUs each task sees"
        elif name == "ntasks-per-gpu" or name in _PER_TASK:
            if name == "tres-per-task" and "gpu" not in value:
                continue
            seen = _count(value) if name != "ntasks-per-gpu" else 1
            enough = seen * (tasks if unbound else 1) >= used
            if not enough or (tasks > 1 and not unbound):
                why = f"each task then sees {seen} of the {used} GPUs that the plan uses on a node"
        elif name in _IN_ALL:
            if (name != "tres-per-job" or "gpu" in value) and _count(value) < in_all:
                why = f"the plan uses {in_all} GPUs"
        elif ("gpu" in value or name == "gpus-per-node") and _count(value) < used:
            why = f"the plan uses {used} GPUs on a node"
        if why:
            said = f"{variable}={value}" if variable else " ".join(option.words if option else ())
            found.append(Conflict(option=option, variable=variable, said=said, why=why))
    return found


def _given(
    line: LaunchLine, environment: Mapping[str, str]
) -> Iterator[tuple[str, str, Option | None, str]]:
    """What the line says of GPUs, and of what it does not say what the job's variables do."""
    own = [option for option in line.options if option.name in _OPTIONS and option.values]
    for option in own:
        yield option.name, option.values[-1], option, ""
    said = {option.name for option in own}
    for name in (*_PER_TASK, "ntasks-per-gpu", *_BIND):
        variable = f"SLURM_{name.upper().replace('-', '_')}"
        value = environment.get(variable)
        if value and name not in said and variable not in _unset(line):
            yield name, value, None, variable


def _unset(line: LaunchLine) -> set[str]:
    """Variables that `env -u NAME` removes in front of srun."""
    words = line.before
    behind = {b for a, b in pairwise(words) if a in ("-u", "--unset")}
    return behind | {w.removeprefix("-u").removeprefix("--unset=") for w in words}


def _is_none(value: str) -> bool:
    return value.rpartition(",")[2].rpartition(":")[2] == "none"


def _maps(value: str, devices: tuple[int, ...]) -> bool:
    """Whether `map_gpu:3,2,1,0` says what the plan does."""
    _, mapped, numbers = value.partition("map_gpu:")
    return bool(mapped and devices) and numbers == ",".join(map(str, devices))


def _count(value: str) -> int:
    """The GPUs of `4`, `a100:4`, `gpu:a100:4` or `gres/gpu=4`; 1 where no number is said."""
    parts = [part for part in value.split(",") if "gpu" in part] or [value]
    found = _NUMBER.search(parts[-1].partition("(")[0])
    return int(found[1]) if found else 1
