"""Run an application under the interposer and read what it recorded."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from toposeat.errors import ApplicationError, ToposeatError, UsageError
from toposeat.installed import native_path
from toposeat.launch import (
    TASK_FILE,
    LauncherKind,
    LaunchLine,
    check_ready,
    launcher_within,
    parse_launch_line,
    reorder_words,
    run_child,
    unwrapped,
    wrap_with_exec,
    wrapped_tasks,
)
from toposeat.launch.child import STOPPING
from toposeat.launch.ledger import OPEN_PORTS, Ledger
from toposeat.launch.python_hook import own_folders
from toposeat.launch.run import assignments
from toposeat.model.files import write_atomically
from toposeat.model.job_folder import MEMORY_FOLDER, job_folder, keep_records
from toposeat.model.shell_words import shell_line, shell_word
from toposeat.model.traffic import INNER_LINE, Traffic
from toposeat.model.trust import make_own_folder
from toposeat.profile.pattern.recognise import with_pattern
from toposeat.profile.recording.gathering import Gathering, gathering, planned_gathering
from toposeat.profile.recording.recorders import (
    Recorders,
    choose_recorders,
    layout_hint,
    why_nothing,
)
from toposeat.profile.records.merge import (
    LEFT_NO_RECORD,
    NO_WORD,
    Progress,
    a_record,
    missing_ranks,
    read_folders,
)
from toposeat.profile.records.segment import HOST_SUFFIX

DIRECTORY_VARIABLE = "TOPOSEAT_PROFILE_DIR"
EXEC_VARIABLE = "TOPOSEAT_PROFILE_EXEC"  # brings home what a Python without MPI recorded
TIME_VARIABLE = "TOPOSEAT_PROFILE_TIME"
PHASES_VARIABLE = "TOPOSEAT_PROFILE_PHASES"
PHASES_BY_MARK = "pcontrol"
MIN_WINDOW_S = 0.05  # shorter ones would change more often than the interposer looks


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording:
    """What the interposer is asked to record beside the traffic."""

    timed: bool = True  # False: no clock is read; cheaper by a few nanoseconds per call
    phases: str | float | None = None  # PHASES_BY_MARK, or the seconds of a time window
    reorder: str = ""  # how MPI reorders ranks (launch.reordering), empty for not at all

    def variables(self, folder: Path) -> dict[str, str]:
        """The environment of the ranks."""
        launcher = native_path("bin/toposeat-exec")
        made = {DIRECTORY_VARIABLE: str(folder), EXEC_VARIABLE: str(launcher)}
        if not self.timed:
            made[TIME_VARIABLE] = "0"
        if self.phases is not None:
            marks = self.phases if isinstance(self.phases, str) else f"{self.phases:.9g}"
            made[PHASES_VARIABLE] = marks
        return made


class NothingRecordedError(ApplicationError):
    """No rank left a record that can be used."""


class MissingRecordsError(ApplicationError):
    """Some ranks left a record and others did not; those that did are kept."""


def profile_run(
    argv: Sequence[str],
    *,
    directory: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
    recording: Recording | None = None,
    partial: bool = False,
    progress: Progress | None = None,
    output: IO[bytes] | None = None,
) -> tuple[Traffic, int]:
    """Start `argv` with the interposer in its ranks, wait, and merge the records.

    The application has this process's standard streams; signals sent to this process reach it.

    Args:
        argv: a launch line, e.g. `["mpirun", "-n", "8", "./app"]`.
        directory: where the records are in the end; kept afterwards. Default: a fresh folder of
            this node in memory, removed afterwards. Nodes that do not see it send theirs.
        environment: for the application; default this process's own.
        recording: what to record beside the traffic; default: time, no phases.
        partial: do without the records of some ranks; the report names them.
        progress: told how many of how many records are merged.
        output: takes the application's standard output; default: this process's own.

    Returns:
        The traffic, and the application's exit code (128 + n when signal n ended the launcher).

    Raises:
        NothingRecordedError: no rank left a record, or one is damaged: the probable cause.
        MissingRecordsError: some ranks have no record, and not `partial`.
    """
    env = dict(os.environ if environment is None else environment)
    line = parse_launch_line(argv)
    check_ready(line, env)
    recorders = choose_recorders(line, env)
    if recorders.library is None and recording is not None and recording.phases is not None:
        raise UsageError(
            "phases are told by MPI calls, and no MPI of this program is known",
            hint="leave --phases out: calls of torch.distributed are summed over the run",
        )
    with _record_folder(directory) as folder, gathering(folder, line, env) as gathered:
        started = _start(line, recorders, recording, gathered, env)
        if started.tasks is not None:
            write_atomically(folder / TASK_FILE, started.tasks, overwrite=False)
        variables = {**env, **started.environment, **gathered.environment}
        heard: list[int] = []
        exit_code = run_child(started.argv, variables, stdout=output, heard=heard)
        if not folder.is_dir():
            raise NothingRecordedError(
                f"{folder} was removed while {line.program[0]} ran: its records are lost",
                hint="give a folder that no other program empties: --keep-records DIR",
                exit_code=exit_code,
            )
        run = _Run(
            line=line,
            environment=env,
            recorders=recorders,
            gathered=gathered,
            is_temporary=directory is None,
            exit_code=exit_code,
        )
        traffic = with_pattern(_complete(run, partial=partial, progress=progress))
    metadata = {**traffic.metadata, "command": shell_line(argv), "exit_code": str(exit_code)}
    # What came here went on to the launcher, whatever exit code that makes of it.
    if stopped := [signal.Signals(each).name for each in heard if each in STOPPING]:
        metadata["stopped_by"] = stopped[0]
    if recording is not None and recording.reorder:
        metadata["reorder"] = recording.reorder
    metadata |= _inner_line(line, traffic)
    if line.further or line.tasks:
        metadata["programs"] = _programs_in_words(line)
    return replace(traffic, metadata=metadata), exit_code


def _inner_line(line: LaunchLine, traffic: Traffic) -> dict[str, str]:
    """The launch line behind a program without one, where its own process is not the job."""
    words = unwrapped(line.program).program
    at = None if line.launcher or len(traffic.mapped_table()) else launcher_within(words[1:])
    return {} if at is None else {INNER_LINE: shell_line(words[at + 1 :])}


def _programs_in_words(line: LaunchLine) -> str:
    """Every program with its ranks, as far as the line says which they are."""
    if line.tasks:
        return " : ".join(f"ranks {each.tasks} {Path(each.program).name}" for each in line.tasks)
    ranges = line.program_ranks
    names = [Path(words[0]).name for words in line.programs]
    if ranges is None:
        return " : ".join(names)
    return " : ".join(
        f"ranks {own[0]}-{own[-1]} {name}" if len(own) > 1 else f"rank {own[0]} {name}"
        for own, name in zip(ranges, names, strict=True)
    )


def merge_records(
    *directories: str | Path, partial: bool = False, progress: Progress | None = None
) -> Traffic:
    """The traffic of a run whose records lie in folders, for example one of each node.

    If `partial`, it does without the records of some ranks, and the report names them.
    """
    traffic = read_folders(*map(Path, directories), progress=progress)
    missing = missing_ranks(traffic, [Path(each) for each in directories])
    if missing and not partial:
        raise ToposeatError(missing, hint="add --partial to do without them")
    return with_pattern(_saying(traffic, missing))


def profile_line(
    argv: Sequence[str],
    *,
    directory: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
    recording: Recording | None = None,
) -> list[str]:
    """The line that `profile_run` would start; XXXXXXXX stands for a name not made yet."""
    line = parse_launch_line(argv)
    env = os.environ if environment is None else environment
    recorders = choose_recorders(line, env)
    folder = MEMORY_FOLDER / "toposeat-profile-XXXXXXXX" if directory is None else Path(directory)
    gathered = planned_gathering(folder, line, env)
    started = _start(line, recorders, recording, gathered, env)
    return [*assignments(started.variables), *started.argv]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Started:
    """The line to start; `variables` are what it is given in place of words for its ranks."""

    argv: list[str]
    variables: Mapping[str, str]
    environment: Mapping[str, str]
    tasks: str | None


def _start(
    line: LaunchLine,
    recorders: Recorders,
    recording: Recording | None,
    gathered: Gathering,
    environment: Mapping[str, str],
) -> _Started:
    words, variables = _words(line, recorders, recording, gathered, environment)
    own, handed_on = gathered.line(line, environment)
    # What containers are shown; another node may lack the folder of the records.
    folders = [*own_folders(), *((gathered.folder,) if gathered.here else ())]
    folders += [] if recorders.library is None else [recorders.library.parent]
    return _Started(
        argv=wrap_with_exec(own, words, str(gathered.folder / TASK_FILE), folders),
        variables=variables,
        environment={**variables, **handed_on},
        tasks=wrapped_tasks(line, words),
    )


def _words(
    line: LaunchLine,
    recorders: Recorders,
    recording: Recording | None,
    gathered: Gathering,
    environment: Mapping[str, str],
) -> tuple[list[str], dict[str, str]]:
    """Path of toposeat-exec and its options, or the variables that do without it.

    A launcher that starts its processes on this host hands its environment to them.
    """
    recording = recording or Recording()
    variables = {
        **recording.variables(gathered.folder),
        **recorders.variables(environment),
    }
    hands_on = line.kind in (LauncherKind.NONE, LauncherKind.TORCHRUN)
    if recorders.library is None and hands_on and not recording.reorder:
        return [], variables
    words = [str(native_path("bin/toposeat-exec"))]
    # In front: what the reordering library asks MPI itself is not the application's traffic.
    words += reorder_words(recording.reorder)
    if recorders.library is not None:
        words += ["--preload", str(recorders.library)]
    for name, value in variables.items():
        words += ["-E", f"{name}={value}"]
    return [*words, *gathered.exec_words], {}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Run:
    """A run that has ended."""

    line: LaunchLine
    environment: Mapping[str, str]
    recorders: Recorders
    gathered: Gathering
    is_temporary: bool  # the folder of the records
    exit_code: int

    @property
    def folder(self) -> Path:
        return self.gathered.folder

    def left_dead(self, traffic: Traffic | None) -> bool:
        """Whether ranks may have died on other nodes: what they left there is to be removed."""
        here = socket.gethostname()
        hosts = () if traffic is None else (info.host for info in traffic.rank_info)
        return self.exit_code != 0 and any(host != here for host in hosts)


def _complete(run: _Run, *, partial: bool, progress: Progress | None) -> Traffic:
    """The merged records, those included that have to be fetched; exit codes survive all errors."""
    noted = sum(1 for _ in run.folder.glob(f"*{HOST_SUFFIX}"))
    elsewhere = not run.gathered.here
    elsewhere &= run.line.ranks is None or noted < run.line.ranks
    why = ""
    ledger = Ledger.of(run.line, run.exit_code, run.gathered.opened)  # before others speak
    try:
        run.gathered.unpack()
        traffic = _read(run.folder, progress)
        missing = "all" if traffic is None else missing_ranks(traffic, [run.folder])
        if (missing or run.left_dead(traffic)) and elsewhere:
            why = run.gathered.collect(run.line, run.environment)
            run.gathered.unpack()
            traffic = _read(run.folder, progress)
    except ToposeatError as error:
        hint = "; ".join([error.hint, *layout_hint(run.line)])
        raise NothingRecordedError(str(error), hint=hint, exit_code=run.exit_code) from error
    if traffic is None:
        fault = why_nothing(
            run.line,
            run.environment,
            run.recorders,
            ledger=ledger,
            folder=run.folder,
            not_fetched=why,
        )
        raise NothingRecordedError(fault.cause, hint=fault.hint, exit_code=run.exit_code)
    lost = ledger.not_kept(run.folder)
    missing = missing_ranks(traffic, [run.folder], why if lost is None else lost.cause)
    if missing and not partial:
        kept = keep_records(run.folder) if run.is_temporary else run.folder
        hint = (
            f"the other ranks' records are kept: toposeat profile --merge {shell_word(str(kept))}"
            " --partial -o F makes a profile of them"
        )
        if NO_WORD in missing and ledger.address and not run.exit_code and lost is None:
            hint = f"if that node cannot connect to {ledger.address}: {OPEN_PORTS}; {hint}"
        raise MissingRecordsError(missing, hint=hint, exit_code=run.exit_code)
    return _saying(traffic, missing)


def _read(folder: Path, progress: Progress | None) -> Traffic | None:
    return read_folders(folder, progress=progress) if a_record(folder) is not None else None


def _saying(traffic: Traffic, missing: str) -> Traffic:
    """With what is missing, and where, first in the report."""
    if not missing:
        return traffic
    rest = (line for line in traffic.report if not line.endswith(LEFT_NO_RECORD))
    return replace(traffic, report=(missing, *rest))


@contextmanager
def _record_folder(directory: str | Path | None) -> Iterator[Path]:
    if directory is not None:
        folder = Path(directory).absolute()
        make_own_folder(folder)
        left = a_record(folder)
        if left is not None:
            raise ToposeatError(
                f"{folder} holds records of another run ({left.name})", hint="give a fresh folder"
            )
        yield folder
        return
    with job_folder("profile", memory=True) as folder:
        yield folder
