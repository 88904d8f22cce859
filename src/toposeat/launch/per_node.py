"""One process on every node of a job, by the job's own launcher and in its own allocation."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from toposeat.errors import ToposeatError, UsageError
from toposeat.launch.allocation import all_here, known_allocation
from toposeat.launch.child import ChildWatch, run_child
from toposeat.launch.home import Home
from toposeat.launch.home_job import Expected
from toposeat.launch.launchers.launcher import Launch, LauncherKind, LaunchLine
from toposeat.launch.ledger import OPEN_PORTS, REFUSED_ON_NODES, Fault, Ledger
from toposeat.launch.line import hand_on, parse_launch_line
from toposeat.model.job_folder import job_folder
from toposeat.model.record import Record


class PerNodeLine(Record, frozen=True, kw_only=True):
    """A line that starts one process per node, and the environment to start it in."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]


def per_node_line(
    line: LaunchLine,
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    as_job: bool = False,
    handed_on: Sequence[str] = (),
) -> PerNodeLine | None:
    """The line that starts `command` once on every node where `line` starts its ranks.

    If `as_job`, with the devices that the job would see: outside of an allocation srun asks for one
    as the job would, if the line says on how many nodes; it may be given others. `handed_on` are
    names of variables that the processes need (`hand_on`).

    Returns:
        None where there is no such line: without a launcher; for srun outside of an allocation,
        which has an allocation of its own for each job; for launchers whose way is not known here.
    """
    allocation = known_allocation(line, environment)
    launch = Launch(line=line, allocation=allocation, environment=environment)
    words = None if line.family.per_node is None else line.family.per_node(launch, as_job)
    if words is None:
        return None
    # Where the job's ranks go is not where these processes go.
    placing = line.family.placing
    kept = {name: value for name, value in environment.items() if name not in placing}
    own = parse_launch_line((line.launcher[0], *words, *command), identify=lambda _: line.kind)
    own, added = hand_on(own, handed_on, kept)
    return PerNodeLine(argv=own.argv, environment={**kept, **added})


_ANSWERS = Expected(name=re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII), max_bytes=1 << 24)


def node_answers(
    line: LaunchLine,
    command: Callable[[str], Sequence[str]],
    environment: Mapping[str, str],
    *,
    hosts: Sequence[str] = (),
) -> dict[str, bytes]:
    """What the processes that `command` names send home from the nodes of a job, by file name.

    It is told the words by which processes find the way home (`send_home`). `hosts` are those of
    the job, as far as they are known.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(job_folder("nodes", memory=True))
        home = _open_home(stack, folder, hosts, here=all_here(line, environment))
        step = per_node_line(
            line,
            (*_BY_SHELL, *command(home.words)),
            {**environment, **home.environment},
            as_job=True,
            handed_on=tuple(home.environment),
        )
        if step is None:
            raise _no_line(line)
        nowhere = stack.enter_context(Path(os.devnull).open("wb"))
        last = stack.enter_context(_AfterLastAnswer(folder, len(hosts)))
        code = run_child(step.argv, step.environment, stdout=nowhere, attach=last.attach)
        code = 0 if last.has_ended else code
        home.close()
        answers = {path.name: path.read_bytes() for path in _answers_in(folder)}
    if code != 0 or not answers:
        ledger = Ledger.of(line, code, home)
        fault = ledger.not_kept(folder) or _unanswered(ledger, command("")[0], len(answers))
        raise ToposeatError(f"the nodes of the job cannot be asked: {fault.cause}", hint=fault.hint)
    return answers


def _answers_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


class _AfterLastAnswer(ChildWatch):
    """Ends a launcher that still waits when all nodes have answered.

    That of Open MPI 5 can wait for ever for processes that ended soon after it had started them:
    one time in six on a loaded machine, measured without toposeat.

    Args:
        folder: where answers arrive.
        nodes: how many there will be; 0 where that is not known, then nothing is ended.
    """

    def __init__(self, folder: Path, nodes: int) -> None:
        super().__init__()
        self._folder, self._nodes = folder, nodes
        self._due = time.monotonic() + _PATIENCE_S

    def look(self) -> None:
        """Send SIGTERM some time after the last answer, then SIGKILL."""
        if not self._nodes or len(_answers_in(self._folder)) < self._nodes:
            self._due = time.monotonic() + _PATIENCE_S
        elif time.monotonic() >= self._due:
            self.end(signal.SIGKILL if self.has_ended else signal.SIGTERM)
            self._due += _PATIENCE_S


_PATIENCE_S = 3.0

# The shell of a node ends with a code of its own where the program is not there.
_BY_SHELL = ("/bin/sh", "-c", 'exec "$0" "$@"')
_NOT_FOUND = 127


def _unanswered(ledger: Ledger, program: str, answers: int) -> Fault:
    if ledger.exit_code == _NOT_FOUND:
        return Fault(
            f"{program} is missing on a node", "install toposeat under the same path on all nodes"
        )
    if answers and ledger.exit_code == REFUSED_ON_NODES:
        return Fault(f"{answers} answered, others cannot reach {ledger.address}", OPEN_PORTS)
    if ledger.exit_code in (0, REFUSED_ON_NODES) and (fault := ledger.unreached()):
        return fault
    return ledger.ended() or Fault(
        f"{ledger.starter} ended with exit code {ledger.exit_code}", "what it said is above"
    )


def _open_home(stack: ExitStack, folder: Path, hosts: Sequence[str], *, here: bool) -> Home:
    try:
        return stack.enter_context(Home(folder, hosts=hosts, here=here, expected=_ANSWERS))
    except OSError as error:
        raise ToposeatError(
            f"no port can be opened for answers of nodes: {error.strerror or error}",
            hint="give the machine with -t NETWORK --node SRC",
        ) from error


def _no_line(line: LaunchLine) -> UsageError:
    if line.kind == LauncherKind.SRUN:
        return UsageError(
            "srun outside of an allocation does not say on how many nodes the job shall run",
            hint="add -N NODES, or tune inside the allocation",
        )
    return UsageError(
        f"{line.kind} has no known way to start one process per node",
        hint="give the machine: toposeat tune -t NETWORK --node SRC --hosts LIST -- LAUNCH...",
    )
