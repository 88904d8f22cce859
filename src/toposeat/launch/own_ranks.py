"""Programs that start their ranks themselves: `accelerate launch`, `vllm serve`, a script.

The line stays as it is. Its processes get one list of devices in the order of local ranks, and a
Python that finds its LOCAL_RANK when it starts becomes that rank through toposeat-exec
(`python_hook`), which seats it and reports as for any other launcher.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from toposeat.errors import UsageError
from toposeat.launch.launch_line import LaunchLine
from toposeat.launch.launchers import LauncherKind
from toposeat.launch.python_hook import hooked_path
from toposeat.model.input_file import beginning
from toposeat.model.placement import Placement

SEAT_VARIABLE = "TOPOSEAT_SEAT"  # words of toposeat-exec, as JSON
_STARTERS = re.compile(r"(python|pypy)[\d.]*t?|(ba|da|z|k)?sh|env", re.ASCII)


def starts_own_ranks(
    line: LaunchLine, placement: Placement, environment: Mapping[str, str]
) -> bool:
    """Whether a line without a launcher is of a program that may start the ranks of a placement.

    Python, shells and scripts may; any other executable is one rank.
    """
    if line.kind is not LauncherKind.NONE or placement.ranks == 1:
        return False
    found = shutil.which(line.program[0], path=environment.get("PATH"))
    if found is None:
        return False
    return bool(_STARTERS.fullmatch(Path(found).name)) or beginning(found, 2) == b"#!"


def own_rank_variables(
    placement: Placement,
    exec_words: Sequence[str],
    visibility: str,
    environment: Mapping[str, str],
) -> tuple[dict[str, str], str]:
    """The environment of the line, and what the user should know about it.

    Args:
        placement: of one node.
        exec_words: path of toposeat-exec and its options, for the ranks.
        visibility: one of `visibility.VISIBILITIES`; only `permute` has a list for all.
        environment: of the run.
    """
    from toposeat.launch.export import export_placement  # noqa: PLC0415 - 20 ms

    variables = {**hooked_path(environment), SEAT_VARIABLE: json.dumps(list(exec_words))}
    devices: dict[str, str] = {}
    if visibility == "permute":
        try:
            devices = dict(export_placement(placement, "env").environment)
        except UsageError:  # no order by a variable: processes with a LOCAL_RANK are seated alone
            devices = {}
    if any(name in environment for name in devices if name.endswith("DEVICES")):
        devices = {}  # a list of the user's own: resolved rank by rank
    told = "".join(f"{name}={value} " for name, value in devices.items())
    note = (
        f"the program starts its ranks itself: it runs with {told}and processes with a LOCAL_RANK"
        " are seated one by one; others take their devices from that list, and are not asked"
        if told
        else "the program starts its ranks itself: processes with a LOCAL_RANK are seated one by"
        " one, others are left as they are"
    )
    return {**variables, **devices}, note
