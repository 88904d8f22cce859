"""Run an application under the interposer and read what it recorded."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from toposeat.errors import ApplicationError, ToposeatError
from toposeat.installed import native_path
from toposeat.launch import LaunchLine, parse_launch_line, run_child, wrap_with_exec
from toposeat.model.job_folder import MEMORY_FOLDER, job_folder
from toposeat.model.traffic import Traffic
from toposeat.profile.recognise import with_pattern
from toposeat.profile.recording.library import choose_library
from toposeat.profile.recording.linkage import inspect_linkage
from toposeat.profile.records.merge import Progress, read_records
from toposeat.profile.records.record import SUFFIX
from toposeat.profile.records.record_layout import CAUSE_SUFFIX

DIRECTORY_VARIABLE = "TOPOSEAT_PROFILE_DIR"
TIME_VARIABLE = "TOPOSEAT_PROFILE_TIME"
PHASES_VARIABLE = "TOPOSEAT_PROFILE_PHASES"
PHASES_BY_MARK = "pcontrol"
MIN_WINDOW_S = 0.05  # shorter ones would change more often than the interposer looks
_SEE_ABOVE = "lines that start with 'toposeat:' above, if there are any, give another reason"


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording:
    """What the interposer is asked to record beside the traffic."""

    timed: bool = True  # False: no clock is read; cheaper by a few nanoseconds per call
    phases: str | float | None = None  # PHASES_BY_MARK, or the seconds of a time window

    def variables(self, folder: Path) -> dict[str, str]:
        """The environment of the ranks."""
        made = {DIRECTORY_VARIABLE: str(folder)}
        if not self.timed:
            made[TIME_VARIABLE] = "0"
        if self.phases is not None:
            marks = self.phases if isinstance(self.phases, str) else f"{self.phases:.9g}"
            made[PHASES_VARIABLE] = marks
        return made


class NothingRecordedError(ApplicationError):
    """No rank left a record that can be used."""


def profile_run(
    argv: Sequence[str],
    *,
    directory: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
    recording: Recording | None = None,
    progress: Progress | None = None,
) -> tuple[Traffic, int]:
    """Start `argv` with the interposer in its ranks, wait, and merge the records.

    The application keeps this process's standard streams; signals sent to this process reach it.

    Args:
        argv: a launch line, e.g. `["mpirun", "-n", "8", "./app"]`.
        directory: where the ranks write; kept afterwards. It must be one that all nodes of the job
            share. Default: a fresh folder of this node in memory, removed afterwards.
        environment: for the application; default this process's own.
        recording: what to record beside the traffic; default: time, no phases.
        progress: told how many of how many records are merged.

    Returns:
        The traffic, and the application's exit code (128 + n when signal n ended the launcher).

    Raises:
        MissingProgramError: launcher or program does not exist.
        UsageError: the launch line cannot be taken apart.
        NothingRecordedError: no rank left a record, or one is damaged; the message says the
            probable cause.
        ToposeatError: the program cannot be profiled (see `choose_library`).
    """
    env = dict(os.environ if environment is None else environment)
    line = parse_launch_line(argv)
    library = choose_library(line, env)
    with _record_folder(directory) as folder:
        command = _under_interposer(line, library, folder, recording)
        exit_code = run_child(command, env)
        if not folder.is_dir():
            raise NothingRecordedError(
                f"{folder} was removed while {line.program[0]} ran: its records are lost",
                hint="give a folder that no other program empties: --keep-records DIR",
                exit_code=exit_code,
            )
        if not any(folder.glob(f"*{SUFFIX}")):
            raise _nothing_recorded(line, env, folder, exit_code)
        traffic = with_pattern(_read(folder, exit_code, progress))
    metadata = {**traffic.metadata, "command": shlex.join(argv), "exit_code": str(exit_code)}
    return replace(traffic, metadata=metadata), exit_code


def merge_records(*directories: str | Path, progress: Progress | None = None) -> Traffic:
    """The traffic of a run whose records lie in folders, for example one of each node.

    Raises:
        InputError, ToposeatError: see `read_records`.
    """
    return with_pattern(read_records(*directories, progress=progress))


def profile_line(
    argv: Sequence[str],
    *,
    directory: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
    recording: Recording | None = None,
) -> list[str]:
    """The line that `profile_run` would start; XXXXXXXX stands for a name not made yet."""
    line = parse_launch_line(argv)
    library = choose_library(line, environment)
    folder = MEMORY_FOLDER / "toposeat-profile-XXXXXXXX" if directory is None else Path(directory)
    return _under_interposer(line, library, folder, recording)


def _under_interposer(
    line: LaunchLine, library: Path, folder: Path, recording: Recording | None
) -> list[str]:
    launcher = str(native_path("bin/toposeat-exec"))
    options = ["--preload", str(library)]
    for name, value in (recording or Recording()).variables(folder).items():
        options += ["-E", f"{name}={value}"]
    return wrap_with_exec(line, [launcher, *options])


def _read(folder: Path, exit_code: int, progress: Progress | None) -> Traffic:
    """The merged records; the application's exit code survives records that cannot be read."""
    try:
        return read_records(folder, progress=progress)
    except ToposeatError as error:
        raise NothingRecordedError(str(error), hint=error.hint, exit_code=exit_code) from error


@contextmanager
def _record_folder(directory: str | Path | None) -> Iterator[Path]:
    if directory is not None:
        folder = Path(directory).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        left = next(folder.glob(f"*{SUFFIX}"), None)
        if left is not None:
            raise ToposeatError(
                f"{folder} holds records of another run ({left.name})", hint="give a fresh folder"
            )
        yield folder
        return
    with job_folder("profile", memory=True) as folder:
        yield folder


def _nothing_recorded(
    line: LaunchLine, env: Mapping[str, str], folder: Path, exit_code: int
) -> NothingRecordedError:
    """The probable cause of a run without records."""
    name = line.program[0]
    found = shutil.which(name, path=env.get("PATH"))
    linkage = inspect_linkage(Path(found), env) if found else None
    cause = next((path.name for path in folder.glob(f"*{CAUSE_SUFFIX}*")), "").rpartition("-")[2]
    if cause.isdecimal():
        message = f"no rank could keep its record in {folder}: {os.strerror(int(cause[:9]))}"
        hint = "make room there, or name a folder elsewhere: --keep-records DIR"
    elif exit_code != 0:
        message = f"{name} ended with exit code {exit_code}, and no rank recorded anything"
        hint = f"run it without toposeat first; {_SEE_ABOVE}"
    elif linkage is not None and linkage.is_elf and linkage.mpi_library is None:
        message = (
            f"no rank recorded anything: {name} is not linked to an MPI library, and none of its"
            " processes made an MPI call"
        )
        hint = f"profile the MPI program itself, which must not be linked statically; {_SEE_ABOVE}"
    elif found is not None and Path(found).stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
        message = (
            f"no rank recorded anything: {name} is setuid, so that LD_PRELOAD has no effect on it"
        )
        hint = "profile a copy without the setuid bit"
    elif linkage is not None and not linkage.is_elf:
        message = f"no rank recorded anything: {name} (a script) started no MPI program"
        hint = "an MPI of another family than the launcher's, or a static one, cannot be recorded"
    else:
        message = f"no rank recorded anything: {name} made no MPI call"
        hint = _SEE_ABOVE
    return NothingRecordedError(message, hint=hint, exit_code=exit_code)
