"""The launch line that realises a placement: the launcher's own arguments, and toposeat-exec."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import field
from msgspec.structs import replace

from toposeat.errors import UsageError
from toposeat.installed import native_path
from toposeat.launch.allocation import ranks_asked
from toposeat.launch.export import export_placement
from toposeat.launch.launchers import LAUNCHERS, torchrun
from toposeat.launch.launchers.launcher import Launcher, LauncherKind, LaunchLine
from toposeat.launch.launchers.seats import LaunchFile
from toposeat.launch.launchers.wrappers import VARIABLE, shell_text, unwrapped
from toposeat.launch.line import (
    TASK_FILE,
    hand_on,
    launcher_in_text,
    launcher_within,
    torchrun_below,
    wrap_with_exec,
    wrapped_tasks,
)
from toposeat.launch.python_hook import hooked_path, own_folders
from toposeat.launch.realise import Realisation
from toposeat.launch.reorder import reorder_words
from toposeat.launch.servers import server_of
from toposeat.launch.visibility import check_visibility
from toposeat.model.files import beginning
from toposeat.model.placement import Placement
from toposeat.model.record import Record


class ExecOptions(Record, frozen=True, kw_only=True):
    """What toposeat-exec is told, beside the placement.

    `report_dir` is where every rank leaves its report, None for no reports. With `home`, the words
    for `--home`, they send it there instead. `reorder` is how MPI reorders ranks, empty for not at
    all. `handed_on` are variables of the launcher that shall reach the ranks (`hand_on`),
    `variables` what ranks have in place of what the launcher gives them.
    """

    visibility: str = "permute"
    strict: bool = False
    report_dir: Path | None = None
    home: str | None = None
    reorder: str = ""
    handed_on: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


class PlacedCommand(Record, frozen=True, kw_only=True):
    """The line to start, what is set for it, and what the user should know about it."""

    argv: tuple[str, ...]
    notes: tuple[str, ...] = ()
    files: tuple[LaunchFile, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


SEAT_VARIABLE = "TOPOSEAT_SEAT"  # words of toposeat-exec, as JSON
_PYTHON = re.compile(r"(python|pypy)[\d.]*t?", re.ASCII)
_STARTERS = re.compile(rf"{_PYTHON.pattern}|(ba|da|z|k)?sh|env", re.ASCII)


def placed_command(
    plan: Realisation,
    placement_path: str | Path,
    options: ExecOptions,
    environment: Mapping[str, str],
    *,
    folder: str = "",
) -> PlacedCommand:
    """The command of a plan with every rank seated, once `check_line` had nothing against it.

    `placement_path` is a file that toposeat-exec reads on every node. The command's files will lie
    in `folder`, which has a slash at its end; "" for names alone.
    """
    line, placement = plan.line, plan.seating
    folders = exec_folders(placement_path, options)
    if line.ranks != placement.ranks and starts_own_ranks(line, placement, environment):
        # As under torchrun, which such programs use or imitate.
        words = exec_words(LAUNCHERS[LauncherKind.TORCHRUN], placement_path, options)
        variables, note = own_rank_variables(placement, words, options.visibility, environment)
        started = tuple(wrap_with_exec(line, (), folders=folders))
        return PlacedCommand(argv=started, notes=(note,), environment=variables)
    line, variables = hand_on(line, options.handed_on, environment)
    binding, notes = _binding_arguments(line, placement, environment)
    in_order = None if plan.orders_ranks else line.family.in_order
    ordering = () if in_order is None else in_order(line)
    ending = line.family.ending if options.strict else ()
    own = line.changed((*ending, *binding, *ordering))
    below = torchrun_below(own)
    hook = _looking_hook(below or line, options, environment)
    options = replace(options, variables={**options.variables, **hook})
    if torchrun.is_virtual(below or line):
        # What it does itself would be undone: it takes the devices of local ranks in their order.
        own, below = torchrun.not_virtual(own), below and torchrun.not_virtual(below)
        one = {**options.variables, "LOCAL_RANK": "0"}
        options = replace(options, visibility="mask", variables=one)
        notes = (*notes, torchrun.VIRTUAL_NOTE)
    words = exec_words((below or line).family, placement_path, options)
    words += ["--elastic"] if torchrun.is_elastic(below or line, environment) else []
    tasks = wrapped_tasks(own, words)
    if below is None:
        argv = wrap_with_exec(own, words, folder + TASK_FILE, folders)
    else:
        *srun, _ = wrap_with_exec(replace(own, program=("true",)), (), folders=folders)
        argv = [*srun, *plan.node_start, *wrap_with_exec(below, words, folders=folders)]
    return PlacedCommand(
        argv=tuple(argv),
        notes=notes,
        environment=variables,
        files=() if tasks is None else (LaunchFile(name=TASK_FILE, text=tasks),),
    )


def _looking_hook(
    line: LaunchLine, options: ExecOptions, environment: Mapping[str, str]
) -> dict[str, str]:
    """What lets ranks of PyTorch be asked where they make a process group."""
    names = [Path(unwrapped(words).program[0]).name for words in line.programs]
    is_python = line.kind is LauncherKind.TORCHRUN or any(map(_PYTHON.fullmatch, names))
    return hooked_path(environment) if is_python and options.report_dir is not None else {}


def exec_folders(placement_path: str | Path, options: ExecOptions) -> list[Path]:
    """What a container has to be shown, so that toposeat-exec and its files are found there.

    Where ranks ask home, the files are on this node alone: a container of another would not start.
    """
    files = (Path(placement_path).absolute(), options.report_dir)
    local = () if options.home is not None else files
    return [*own_folders(), *(each for each in local if each is not None)]


def exec_words(family: Launcher, placement_path: str | Path, options: ExecOptions) -> list[str]:
    """Path of toposeat-exec and its options, without the closing `--`."""
    words = [str(native_path("bin/toposeat-exec")), "-m", str(Path(placement_path).absolute())]
    if options.visibility != "permute":
        words += ["--visibility", options.visibility]
    if family.local_rank:
        # It may itself run under mpirun or srun, whose variables would be found first.
        words += ["--local-rank-env", family.local_rank]
    if options.home is not None:
        words += ["--home", options.home]
    elif options.report_dir is not None:
        words += ["--report", str(options.report_dir.absolute())]
    if options.report_dir is not None:
        words += ["--probe", str(native_path("lib/libtoposeat_probe.so"))]
    words += reorder_words(options.reorder) if options.reorder else []
    if options.strict:
        words.append("--strict")
    for name, value in options.variables.items():
        words += ["-E", f"{name}={value}"]
    return words


def check_line(
    line: LaunchLine, placement: Placement, visibility: str, environment: Mapping[str, str]
) -> None:
    """Refuse what no words of a launcher can mend: another number of ranks, a visibility mode."""
    check_visibility(placement, visibility)
    line = torchrun_below(line) or line
    server = server_of(line)
    if server is not None and visibility != "cpu-only":
        server.check(placement.ranks)
    if torchrun.is_virtual(line) and visibility == "cpu-only":
        raise UsageError(
            "--virtual-local-rank gives every rank one device, and --visibility cpu-only is to"
            " leave devices alone",
            hint="leave one of both out",
        )
    asked = ranks_asked(line, environment)
    fits = placement.ranks >= (asked or 0) if line.ranks is None else placement.ranks == asked
    if fits:
        return
    if starts_own_ranks(line, placement, environment):
        command = unwrapped(line.program)
        inner = launcher_in_text(shell_text(command.program, command.which(environment)))
        if inner:
            raise UsageError(
                f"a script starts the ranks by {inner}, which cannot be told of their seats from"
                " outside",
                hint=f"say it in the script: toposeat run -p PLACE {inner} ...",
            )
        return
    raise UsageError(
        f"the placement is for {_ranks(placement.ranks)}, the launch line starts"
        f" {_ranks(asked)}{'' if line.ranks else f' ({line.family.job_ranks})'}",
        hint=_hint_for_ranks(line, placement, asked),
    )


def _hint_for_ranks(line: LaunchLine, placement: Placement, asked: int | None) -> str:
    """What to do about another number of ranks; programs without a launcher may start their own."""
    if not line.launcher:
        program = unwrapped(line.program).program
        name = Path(program[0]).name
        if launcher_within(program[1:]) is not None:
            return f"if {name} starts the line behind it, say so: {VARIABLE}={name}"
        return (
            f"start {_ranks(placement.ranks)} with mpirun or srun; if {name} starts its ranks"
            " itself, put the line of 'toposeat export --launcher env PLACE' in front of it"
        )
    return f"start {_ranks(placement.ranks)}, or make a placement for {asked} with toposeat map"


def _ranks(count: int | None) -> str:
    return f"{count} rank" if count == 1 else f"{count} ranks"


def _binding_arguments(
    line: LaunchLine, placement: Placement, environment: Mapping[str, str]
) -> tuple[Sequence[str], tuple[str, ...]]:
    """What keeps the launcher from binding, and warnings where it binds all the same."""
    if all(seat.cpus is None for seat in placement.seats):
        return (), ()  # toposeat binds nothing, so the launcher may
    wrappers = dict.fromkeys(name for each in line.programs for name in unwrapped(each).bound_by)
    said = tuple(
        f"{name} of the line binds every rank itself, whatever the placement says of CPUs"
        for name in wrappers
    )
    given = [
        *line.binding_options,
        *(name for name in line.family.bound_by if environment.get(name)),
    ]
    if given:
        return (), (
            *said,
            f"the launcher binds processes itself ({', '.join(given)}): a rank keeps only those"
            " CPUs of its seat that the launcher leaves it",
        )
    return line.family.no_binding, said


def starts_own_ranks(
    line: LaunchLine, placement: Placement, environment: Mapping[str, str]
) -> bool:
    """Whether a line without a launcher is of a program that may start the ranks of a placement.

    Python, shells and scripts may, in a container any program; any other executable is one rank.
    """
    if line.kind != LauncherKind.NONE or placement.ranks == 1:
        return False
    command = unwrapped(line.program)
    found = command.which(environment)
    if found is None or _STARTERS.fullmatch(Path(command.program[0]).name):
        return found is not None or bool(command.through)
    return bool(_STARTERS.fullmatch(found.name)) or beginning(found, 2) == b"#!"


def own_rank_variables(
    placement: Placement,
    exec_words: Sequence[str],
    visibility: str,
    environment: Mapping[str, str],
) -> tuple[dict[str, str], str]:
    """The environment of a program that starts its ranks itself, and what to tell about it.

    Such are `accelerate launch`, `vllm serve`, a script. The line stays as it is. Its processes get
    one list of devices in the order of local ranks, and a Python that finds its LOCAL_RANK when it
    starts becomes that rank through toposeat-exec (`python_hook`), which seats it and reports as
    for any other launcher.

    Only the mode `permute` has a list of devices for all.
    """
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
        " are seated one by one, those of PyTorch when they join their group; others take their"
        " devices from that list, and are not asked"
        if told
        else "the program starts its ranks itself: processes with a LOCAL_RANK are seated one by"
        " one, those of PyTorch when they join their group; others are left as they are"
    )
    return {**variables, **devices}, note
