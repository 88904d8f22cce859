"""Running a job, with a placement or reordered by MPI: the line, the child, and the proof."""

from __future__ import annotations

import os
import re
import shutil
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from toposeat.errors import NOT_AS_PLANNED, MissingProgramError, ToposeatError
from toposeat.installed import native_path
from toposeat.launch.allocation import all_here, is_here, known_hosts
from toposeat.launch.apply import SEAT_VARIABLE, ExecOptions, check_line, placed_command
from toposeat.launch.child import run_child
from toposeat.launch.home import Home
from toposeat.launch.home_job import Decision, Expected, Verdicts
from toposeat.launch.home_wire import KEY_VARIABLE
from toposeat.launch.launchers.launcher import LaunchLine
from toposeat.launch.launchers.seats import LaunchFile
from toposeat.launch.launchers.wrappers import unwrapped
from toposeat.launch.ledger import OPEN_PORTS, REFUSED_ON_NODES, Ledger, worlds_fault
from toposeat.launch.lent_files import KEY_VARIABLE as LENT_KEY_VARIABLE
from toposeat.launch.line import check_ready, hand_on, parse_launch_line, wrap_with_exec
from toposeat.launch.order_readers import agree
from toposeat.launch.realise import SEATS_NAME, Realisation, realise, seats_file
from toposeat.launch.reorder import reorder_words
from toposeat.launch.verification import (
    ReportFolder,
    advice,
    is_stopped,
    left_out,
    ranks_in_words,
    read_reports,
    refusal_error,
    refusal_lines,
    when_asked,
    world_of,
)
from toposeat.launch.verification import verify as verify_seats
from toposeat.launch.watching import Watch, wait_for_last_reports
from toposeat.model.files import read_input, write_atomically
from toposeat.model.hostlist import compress_hostlist
from toposeat.model.job_folder import job_folder
from toposeat.model.placement import Placement
from toposeat.model.runs import RealisedSeat, RunRecord, verdict_of_job
from toposeat.model.topology import ANY_HOST

# Variables worth keeping with a run: they steer devices, libraries and launchers.
_RECORDED_PREFIXES = (
    *("CUDA_", "NVIDIA_", "ROCR_", "HIP_", "GPU_DEVICE_", "ZE_", "NCCL_", "RCCL_", "UCX_", "FI_"),
    *("OMPI_MCA_", "PRTE_MCA_", "MPICH_", "MPIR_CVAR_", "I_MPI_", "SLURM_", "FLUX_JOB_", "OMP_"),
    *("LD_PRELOAD", "TOPOSEAT_"),
)

_SECRETS = (KEY_VARIABLE, LENT_KEY_VARIABLE)

_PROBE_NAME = re.compile(r"rank-(?P<rank>[0-9]{1,9})-[0-9]{1,9}(-[0-9]{1,19})?\.probe", re.ASCII)

# Launcher options with which a relative path of the program is not relative to this process.
_DIRECTORY_OPTIONS = frozenset(
    {"wdir", "wd", "path", "chdir", "D", "cwd", "set-cwd-to-session-dir"}
)


def run_placed(
    argv: Sequence[str],
    placement: Placement,
    placement_path: str | Path,
    *,
    visibility: str = "permute",
    strict: bool = False,
    dry_run: bool = False,
    verify: bool = True,
    other_machine: bool = False,
    reorder: str = "",
    environment: Mapping[str, str] | None = None,
    stdout: IO[bytes] | None = None,
    rewritten: Placement | None = None,
    tell: Callable[..., None] | None = None,
) -> RunRecord:
    """Start `argv` with every rank seated by `placement` and wait for it.

    Standard streams, exit code and signals are the application's own.

    Args:
        argv: the launch line as the user would type it.
        placement: the content of `placement_path`.
        placement_path: file that toposeat-exec reads on every node.
        visibility: permute, mask, rotate or cpu-only.
        strict: a rank that cannot be seated as placed stops the job; `exit_code` is then
            `NOT_AS_PLANNED` where it was started nowhere, as far as that is known.
        dry_run: start nothing; `launched` of the record holds the exact line.
        verify: let every rank report what it got and compare.
        other_machine: run a placement that was made for other hosts.
        reorder: how MPI reorders ranks (`reordering`), empty for not at all.
        environment: of the job; this process's own by default.
        stdout: where the job's standard output goes; this process's own by default.
        rewritten: the placement with the ids of this machine, where the file has others.
        tell: called with warnings before the start, and with the lines that say why a job is
            refused, before its launcher has its say.

    Returns:
        The record; `seats` is empty where nothing was verified, `exit_code` is the application's.
    """
    variables = dict(os.environ if environment is None else environment)
    line = parse_launch_line(argv)
    check_exists(line, variables)
    check_ready(line, variables)
    check_line(line, placement, visibility, variables)
    started, clock, code = datetime.now(UTC), time.perf_counter(), 0
    with ExitStack() as stack:
        folder = None if dry_run else _folder(stack, line, variables)
        within = "" if folder is None else f"{folder}/"
        plan = realise(
            *(line, rewritten or placement, variables),
            folder=within,
            other_machine=other_machine,
            shows_devices=visibility != "cpu-only",
        )
        order = agree(plan, line, variables)
        said = (*plan.warnings, *order.lines)
        if tell is not None and said:
            tell(*said)
        if plan.seating is not placement:
            plan = replace(plan, files=(*plan.files, seats_file(plan.seating)))
        seats_path = _write(plan.files, folder) or Path(placement_path)
        remote = _is_remote(line, plan.seating, variables)
        home = None
        if folder is not None and remote and not line.family.starts_here:
            home = _Home(stack, folder, plan, seats_path, strict=strict, tell=tell)
        secrets = {} if home is None else home.secrets
        options = ExecOptions(
            visibility=visibility,
            strict=strict,
            report_dir=folder if verify else None,
            home=None if home is None else home.words,
            reorder=reorder,
            handed_on=tuple(secrets),
            variables=order.variables,
        )
        command = placed_command(plan, seats_path, options, variables, folder=within)
        _write(command.files, folder)
        added = {**plan.environment, **command.environment}
        watch = None
        if folder is not None and verify:
            told = dict[int, str] if home is None else home.seats
            watch = Watch(folder, plan, seats=told, strict=strict, tell=tell)
        if folder is not None:
            code = _run(command.argv, {**variables, **added, **secrets}, watch, stdout)
        wall_s = time.perf_counter() - clock
        unheard = () if home is None else home.close(code)
        seats: tuple[RealisedSeat, ...] = ()
        notes: tuple[str, ...] = ()
        if folder is not None:
            if SEAT_VARIABLE in command.environment:
                wait_for_last_reports(folder)
            reports = read_reports(folder, None if home is None else home.seats())
            if strict and code and any(map(is_stopped, reports.ranks.values())):
                code = NOT_AS_PLANNED  # the launcher's own code says no more than that one failed
            seats, notes = _verified(plan, reports, verify=verify, remote=remote, exit_code=code)
            notes = (*_world_notes(plan, reports, variables), *notes)
    return _record(
        argv,
        (*assignments(added), *command.argv),
        variables | added,
        started,
        placement=str(placement_path),
        visibility=visibility,
        wall_s=wall_s,
        exit_code=code,
        verdict=verdict_of_job(seats),
        seats=seats,
        notes=(*plan.notes, *(said if tell is None else ()), *command.notes, *unheard, *notes),
        launch_files={file.name: file.text for file in (*plan.files, *command.files)},
    )


def _run(
    argv: Sequence[str],
    environment: Mapping[str, str],
    watch: Watch | None,
    stdout: IO[bytes] | None,
) -> int:
    """The exit code of a job that is watched as long as it runs."""
    if watch is None:
        return run_child(argv, environment, stdout=stdout)
    with watch:
        code = run_child(argv, environment, stdout=stdout, attach=watch.attach)
    return NOT_AS_PLANNED if watch.has_ended else code


def run_reordered(
    argv: Sequence[str],
    how: str,
    *,
    dry_run: bool = False,
    environment: Mapping[str, str] | None = None,
) -> RunRecord:
    """Start `argv` without a placement, its ranks reordered as `reordering` said, and wait for it.

    A dry run starts nothing; `launched` of the record holds the exact line.
    """
    variables = dict(os.environ if environment is None else environment)
    line = parse_launch_line(argv)
    words = [str(native_path("bin/toposeat-exec")), *reorder_words(how)]
    started, clock, code = datetime.now(UTC), time.perf_counter(), 0
    with ExitStack() as stack:
        secrets: Mapping[str, str] = {}
        if not dry_run and not all_here(line, variables):
            # The ranks that can be reordered are counted there: no node sees all.
            home = Home(
                stack.enter_context(job_folder("run")),
                ranks=line.ranks,
                hosts=known_hosts(line, variables),
            )
            with suppress(OSError):  # no socket: then none is reordered, and the ranks say so
                stack.enter_context(home)
                words += ["--home", home.words]
                secrets = home.environment
        line, handed_on = hand_on(line, tuple(secrets), variables)
        launched = wrap_with_exec(line, words)
        if not dry_run:
            code = run_child(launched, {**variables, **handed_on, **secrets})
        wall_s = time.perf_counter() - clock
    return _record(
        argv,
        launched,
        variables,
        started,
        placement="",
        visibility="",
        wall_s=wall_s,
        exit_code=code,
    )


def _record(
    argv: Sequence[str],
    launched: Sequence[str],
    variables: Mapping[str, str],
    started: datetime,
    **told: Any,
) -> RunRecord:
    """The record of a run, with what else is `told` of it."""
    return RunRecord(
        command=tuple(argv),
        launched=tuple(launched),
        host=socket.gethostname(),
        started_at=started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        environment=_recorded(variables),
        **told,
    )


def check_exists(line: LaunchLine, variables: Mapping[str, str]) -> None:
    """Refuse a missing launcher, and a missing program where it is named by its path.

    A program named without a path may be found on the compute nodes only. A script that torchrun
    hands to Python needs no executable bit.
    """
    words = [("launcher", line.launcher[0])] if line.launcher and not line.through else []
    words += [("wrapper", line.before[0])] if line.before else []
    options = (*line.options, *(option for each in line.further for option in each.options))
    elsewhere = any(option.name in _DIRECTORY_OPTIONS for option in options)
    for command in map(unwrapped, line.programs):
        if command.before:
            words += [] if line.launcher else [("wrapper", command.before[0])]
        program = command.program[0]
        is_here = "/" in program and not (elsewhere and not program.startswith("/"))
        if command.contained or command.through or line.through:
            continue  # the program is said in words of another place
        if is_here or not line.launcher:
            words.append(("program", program))
        elif Path(program).is_file() and shutil.which(program, path=variables.get("PATH")) is None:
            is_script = bool(line.interpreter)  # which Python finds without a path
            words += [] if is_script else [("program", program)]
    for what, word in words:
        if what == "program" and line.interpreter and Path(word).exists():
            continue
        if shutil.which(word, path=variables.get("PATH")) is None:
            raise MissingProgramError(
                f"{what} {word!r} not found or not executable",
                hint=_for_missing(word, what),
            )


def _for_missing(word: str, what: str) -> str:
    if word == "time":
        return "put the shell's own in front of toposeat: time toposeat run ..."
    if what == "wrapper":
        return "check the name, install it, or leave it out"
    if "/" not in word and Path(word).is_file() and os.access(word, os.X_OK):
        return f"did you mean ./{word}?"
    if word.endswith(".place"):
        return f"did you mean -p {word}?"
    return "check the name, or load its module"


def _folder(stack: ExitStack, line: LaunchLine, variables: Mapping[str, str]) -> Path:
    """The job's own folder, in this one where other nodes read what is written for the launcher."""
    shares = line.family.shares_files
    elsewhere = any(Path(word).name == "srun" for word in line.before)
    shared = elsewhere or (shares is not None and shares(line, variables))
    parent = Path.cwd() if shared else None
    return stack.enter_context(job_folder("run", parent=parent))


def _write(files: Iterable[LaunchFile], folder: Path | None) -> Path | None:
    """Write the launcher's files; returns where the seats are, if they are among them."""
    seats = None
    for file in files:
        path = Path(file.name) if folder is None else folder / file.name
        if folder is not None:
            write_atomically(path, file.text, overwrite=False)
        if file.name == SEATS_NAME:
            seats = path
    return seats


def assignments(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Words in front of a command that set variables."""
    words = tuple(f"{name}={value}" for name, value in environment.items())
    return ("env", *words) if words else ()


def _is_remote(line: LaunchLine, placement: Placement, environment: Mapping[str, str]) -> bool:
    """Whether ranks may be on other hosts: then they are asked before any of them starts.

    But not those of torchrun, which is started on every host by itself.
    """
    if line.family.any_host and not all_here(line, environment):
        return True
    return bool(_other_hosts(placement))


def _other_hosts(placement: Placement) -> list[str]:
    hosts = dict.fromkeys(seat.host for seat in placement.seats)
    return [host for host in hosts if host != ANY_HOST and not is_here(host)]


class _Home:
    """Where ranks of other nodes report, and why they were stopped, if they were.

    Attributes:
        words: how the ranks find it.
        secrets: variables for the ranks alone, in no line and in no record.
    """

    def __init__(
        self,
        stack: ExitStack,
        folder: Path,
        plan: Realisation,
        path: Path,
        *,
        strict: bool,
        tell: Callable[..., None] | None,
    ) -> None:
        self._plan, self._strict, self._tell = plan, strict, tell
        self._refusal: ToposeatError | None = None
        ranks = plan.seating.ranks
        self._home = Home(
            folder,
            placement=read_input(path),
            ranks=ranks,
            hosts=_other_hosts(plan.seating),
            expected=Expected(name=_PROBE_NAME, ranks=ranks),
            on_stop=self._stopped,
            strict=strict,
        )
        try:
            stack.enter_context(self._home)
        except OSError as error:
            raise ToposeatError(
                f"cannot listen for the ranks of other nodes: {error.strerror or error}",
                hint="run it where sockets can be opened",
            ) from error
        self.words, self.secrets = self._home.words, self._home.environment

    def seats(self) -> Mapping[int, str]:
        """What every rank said of its seat so far."""
        return self._home.verdicts.reports

    def _stopped(self, verdicts: Verdicts) -> None:
        """Keep why, and tell it at once: the launcher has its say only after that."""
        plan, ranks = self._plan, self._plan.seating.ranks
        own = replace(
            verdicts,
            reports={plan.rank_of(slot): text for slot, text in verdicts.reports.items()},
            unseated=frozenset(plan.rank_of(slot) for slot in verdicts.unseated),
        )
        hosts = {plan.rank_of(slot): seat.host for slot, seat in enumerate(plan.seating.seats)}
        silent = set(hosts.values()) - {hosts.get(rank) for rank in own.reports}
        hint = f"nothing came from {compress_hostlist(silent)}: {OPEN_PORTS}" if silent else ""
        self._refusal = refusal_error(own, ranks, strict=self._strict, unheard=hint)
        if self._tell is not None:
            self._tell(*refusal_lines(own, ranks, hosts))

    def close(self, code: int) -> tuple[str, ...]:
        """Once the job has ended; what to tell where no rank has said that it has its seat."""
        self._home.close()
        if self._home.decision is Decision.STOP and self._refusal is not None:
            raise self._refusal
        fault = Ledger.of(self._plan.line, code, self._home).unreached()
        if fault is None or code not in (0, REFUSED_ON_NODES):
            return ()
        if code:
            raise ToposeatError(f"no rank was started: {fault.cause}", hint=fault.hint)
        return (f"{fault.cause}: the seats of ranks are unverified ({fault.hint})",)


def _world_notes(
    plan: Realisation, reports: ReportFolder, environment: Mapping[str, str]
) -> tuple[str, ...]:
    """What to say where the program's world is not the one that was planned."""
    worlds = [size for own in reports.ranks.values() if (size := world_of(own)) is not None]
    ranks = plan.seating.ranks
    fault = worlds_fault(plan.line, max(worlds, default=ranks), environment, alone=ranks)
    return () if fault is None else (f"{fault.cause} ({fault.hint})",)


def _verified(
    plan: Realisation, reports: ReportFolder, *, verify: bool, remote: bool, exit_code: int
) -> tuple[tuple[RealisedSeat, ...], tuple[str, ...]]:
    notes = tuple(f"the report {name} of a rank is damaged" for name in reports.unreadable)
    remarks = dict.fromkeys(
        note for own in reports.ranks.values() for note in own.seat.get("note", ())
    )
    if not verify:  # else it is among the differences of each seat
        return (), (*notes, *_left_out(plan, reports), *remarks)
    seats = verify_seats(plan.seating, reports, remote=remote, exit_code=exit_code)
    seats = tuple(replace(seat, rank=plan.rank_of(seat.rank)) for seat in seats)
    notes = (*advice(plan.seating, reports), *when_asked(seats, reports), *notes, *remarks)
    return tuple(sorted(seats, key=lambda seat: seat.rank)), notes


def _left_out(plan: Realisation, reports: ReportFolder) -> list[str]:
    """What nodes lack of the placement, each once, with the ranks that go without."""
    missing: dict[str, list[int]] = {}
    for slot, own in reports.ranks.items():
        for cause in left_out(own.seat).values():
            missing.setdefault(cause, []).append(plan.rank_of(slot))
    return [f"{ranks_in_words(sorted(ranks))}: {cause}" for cause, ranks in missing.items()]


def _recorded(variables: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in sorted(variables.items())
        if name.startswith(_RECORDED_PREFIXES) and name not in _SECRETS
    }
