"""Asking every node of a job: one process on each by the job's launcher, an answer from each."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from toposeat.errors import ToposeatError, UsageError
from toposeat.launch.child import run_child
from toposeat.launch.here import all_here
from toposeat.launch.home import Home
from toposeat.launch.home_files import Expected
from toposeat.launch.launch_line import LaunchLine
from toposeat.launch.launchers import LauncherKind
from toposeat.launch.per_node import per_node_line
from toposeat.model.job_folder import job_folder

_ANSWERS = Expected(name=re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII), max_bytes=1 << 24)


def node_answers(
    line: LaunchLine,
    command: Callable[[str], Sequence[str]],
    environment: Mapping[str, str],
    *,
    hosts: Sequence[str] = (),
) -> dict[str, bytes]:
    """What the processes that `command` names send home from the nodes of a job, by file name.

    Args:
        line: the job's.
        command: of the words by which processes find the way home (`home_sender`).
        environment: of the job.
        hosts: of the job, as far as they are known.

    Raises:
        UsageError: no line of this launcher starts one process per node.
        ToposeatError: the launcher failed, or no answer arrived.
        MissingProgramError: the launcher does not exist.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(job_folder("nodes", memory=True))
        home = _open_home(stack, folder, hosts, here=all_here(line, environment))
        step = per_node_line(
            line,
            command(home.words),
            {**environment, **home.environment},
            as_job=True,
            handed_on=tuple(home.environment),
        )
        if step is None:
            raise _no_line(line)
        nowhere = stack.enter_context(Path(os.devnull).open("wb"))
        code = run_child(step.argv, step.environment, stdout=nowhere)
        home.close()
        answers = {
            path.name: path.read_bytes()
            for path in sorted(folder.iterdir())
            if not path.name.startswith(".")
        }
    if code != 0 or not answers:
        raise ToposeatError(
            f"the nodes of the job cannot be asked: {line.launcher[0]} ended with exit code {code}"
            if code
            else "no node of the job could send its answer here",
            hint="toposeat must be installed under the same path on all nodes, and nodes must reach"
            " this host; or give the machine with -t NETWORK --node SRC",
        )
    return answers


def _open_home(stack: ExitStack, folder: Path, hosts: Sequence[str], *, here: bool) -> Home:
    try:
        return stack.enter_context(Home(folder, hosts=hosts, here=here, expected=_ANSWERS))
    except OSError as error:
        raise ToposeatError(
            f"no port can be opened for answers of nodes: {error.strerror or error}",
            hint="give the machine with -t NETWORK --node SRC",
        ) from error


def _no_line(line: LaunchLine) -> UsageError:
    if line.kind is LauncherKind.SRUN:
        return UsageError(
            "srun outside of an allocation does not say on how many nodes the job shall run",
            hint="add -N NODES, or tune inside the allocation",
        )
    return UsageError(
        f"{line.kind.value} has no known way to start one process per node",
        hint="give the machine: toposeat tune -t NETWORK --node SRC --hosts LIST -- LAUNCH...",
    )
