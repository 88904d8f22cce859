"""The launch line that realises a placement: the launcher's own arguments, and toposeat-exec."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from toposeat.errors import UsageError
from toposeat.installed import native_path
from toposeat.launch.launch_file import LaunchFile
from toposeat.launch.launch_line import TASK_FILE, LaunchLine, wrap_with_exec, wrapped_tasks
from toposeat.launch.launchers import NO_BINDING, LauncherKind
from toposeat.launch.nested import AS_NODE_OF_TASK, torchrun_below
from toposeat.launch.option_tables import OPENMPI
from toposeat.launch.own_ranks import own_rank_variables, starts_own_ranks
from toposeat.launch.reorder import reorder_words
from toposeat.launch.visibility import VISIBILITIES
from toposeat.model.placement import Placement


@dataclass(frozen=True, kw_only=True, slots=True)
class ExecOptions:
    """What toposeat-exec is told, beside the placement.

    `report_dir` is where every rank leaves its report, None for no reports. With `home`, the words
    for `--home`, they send it there instead. `reorder` is how MPI reorders ranks, empty for not at
    all.
    """

    visibility: str = "permute"
    strict: bool = False
    dry_run: bool = False
    report_dir: Path | None = None
    home: str | None = None
    ids: str = "auto"
    memory_policy: str = "preferred"
    reorder: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacedCommand:
    """The line to start, what is set for it, and what the user should know about it."""

    argv: tuple[str, ...]
    notes: tuple[str, ...] = ()
    files: tuple[LaunchFile, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


# Open MPI 5 maps by core or package and then numbers the ranks of a node in that order, so that
# local rank 1 may be rank 2. Without options of the user that say otherwise, keep them in order.
_RANK_IN_ORDER = ("--rank-by", "slot")
# Variables that switch the launcher's own CPU binding on.
_BINDING_VARIABLES: Mapping[LauncherKind, tuple[str, ...]] = {
    LauncherKind.OPENMPI: (
        "OMPI_MCA_hwloc_base_binding_policy",
        "PRTE_MCA_hwloc_default_binding_policy",
    ),
    LauncherKind.MPICH: ("HYDRA_BINDING",),
    LauncherKind.INTEL: ("I_MPI_PIN",),
    LauncherKind.SRUN: ("SLURM_CPU_BIND",),
}


def placed_command(
    line: LaunchLine,
    placement: Placement,
    placement_path: str | Path,
    options: ExecOptions,
    *,
    environment: Mapping[str, str] | None = None,
    orders_ranks: bool = False,
    folder: str = "",
) -> PlacedCommand:
    """The command of `line` with every rank seated by `placement`.

    Args:
        line: the command, taken apart.
        placement: the seats; only their number and whether they hold CPU sets matter here.
        placement_path: file that toposeat-exec reads on every node.
        options: how the placement is applied.
        environment: of the run; this process's own by default.
        orders_ranks: the line says already which rank goes where.
        folder: where the command's files will lie, with a slash at its end; "" for names alone.

    Raises:
        UsageError: the line starts another number of ranks than were placed, or the visibility mode
            does not exist.
        UnavailableError: toposeat-exec is not installed.
    """
    environment = os.environ if environment is None else environment
    check_line(line, placement, options, environment)
    if line.ranks != placement.ranks and starts_own_ranks(line, placement, environment):
        # As under torchrun, which such programs use or imitate.
        words = exec_words(LauncherKind.TORCHRUN, placement_path, options)
        variables, note = own_rank_variables(placement, words, options.visibility, environment)
        return PlacedCommand(argv=line.argv, notes=(note,), environment=variables)
    binding, notes = _binding_arguments(line, placement, environment)
    ordering = () if orders_ranks else _ordering_arguments(line)
    # srun waits for tasks that wait for one that has ended; a later option of the user wins
    ending = options.strict and line.kind is LauncherKind.SRUN
    own = line.changed((*(("--kill-on-bad-exit=1",) if ending else ()), *binding, *ordering))
    below = torchrun_below(own)
    words = exec_words(line.kind if below is None else below.kind, placement_path, options)
    tasks = wrapped_tasks(own, words)
    return PlacedCommand(
        argv=tuple(
            wrap_with_exec(own, words, folder + TASK_FILE)
            if below is None
            else [*own.launcher, *AS_NODE_OF_TASK, *wrap_with_exec(below, words)]
        ),
        notes=notes,
        files=() if tasks is None else (LaunchFile(name=TASK_FILE, text=tasks),),
    )


def exec_words(kind: LauncherKind, placement_path: str | Path, options: ExecOptions) -> list[str]:
    """Path of toposeat-exec and its options, without the closing `--`."""
    words = [str(native_path("bin/toposeat-exec")), "-m", str(Path(placement_path).absolute())]
    if options.visibility != "permute":
        words += ["--visibility", options.visibility]
    if options.ids != "auto":
        words += ["--ids", options.ids]
    if options.memory_policy != "preferred":
        words += ["--memory-policy", options.memory_policy]
    if kind is LauncherKind.TORCHRUN:
        # torchrun may itself run under mpirun or srun, whose variables would be found first.
        words += ["--local-rank-env", "LOCAL_RANK"]
    if options.home is not None:
        words += ["--home", options.home]
    elif options.report_dir is not None:
        words += ["--report", str(options.report_dir.absolute())]
    if options.report_dir is not None:
        words += ["--probe", str(native_path("lib/libtoposeat_probe.so"))]
    words += reorder_words(options.reorder)
    if options.strict:
        words.append("--strict")
    if options.dry_run:
        words.append("--dry-run")
    return words


def check_line(
    line: LaunchLine,
    placement: Placement,
    options: ExecOptions,
    environment: Mapping[str, str],
) -> None:
    """Refuse what no words of a launcher can mend.

    Raises:
        UsageError: the line starts another number of ranks than were placed, or the visibility mode
            does not exist or cannot show these devices.
    """
    if options.visibility not in VISIBILITIES:
        raise UsageError(
            f"visibility {options.visibility!r} does not exist",
            hint="one of " + ", ".join(VISIBILITIES),
        )
    if placement.shares_devices and options.visibility in ("permute", "rotate"):
        raise UsageError(
            "several ranks share a device in this placement, which no order of one device list can"
            " express",
            hint="add --visibility mask: every rank then sees its own device alone",
        )
    line = torchrun_below(line) or line
    if line.ranks in (None, placement.ranks) or starts_own_ranks(line, placement, environment):
        return
    raise UsageError(
        f"the placement is for {_ranks(placement.ranks)}, the launch line starts"
        f" {_ranks(line.ranks)}",
        hint=_hint_for_ranks(line, placement),
    )


def _hint_for_ranks(line: LaunchLine, placement: Placement) -> str:
    """What to do about another number of ranks; programs without a launcher may start their own."""
    if not line.launcher:
        return (
            f"start {_ranks(placement.ranks)} with mpirun or srun; if"
            f" {Path(line.program[0]).name} starts its ranks itself, put the line of"
            " 'toposeat export --launcher env PLACE' in front of it"
        )
    return (
        f"start {_ranks(placement.ranks)}, or make a placement for {line.ranks} with toposeat map"
    )


def _ranks(count: int | None) -> str:
    return f"{count} rank" if count == 1 else f"{count} ranks"


def _binding_arguments(
    line: LaunchLine, placement: Placement, environment: Mapping[str, str]
) -> tuple[Sequence[str], tuple[str, ...]]:
    """What keeps the launcher from binding, and warnings where it binds all the same."""
    if all(seat.cpus is None for seat in placement.seats):
        return (), ()  # toposeat binds nothing, so the launcher may
    given = [
        *line.binding_options,
        *(name for name in _BINDING_VARIABLES.get(line.kind, ()) if environment.get(name)),
    ]
    if given:
        return (), (
            f"the launcher binds processes itself ({', '.join(given)}): a rank keeps only those"
            " CPUs of its seat that the launcher leaves it",
        )
    return NO_BINDING.get(line.kind, ()), ()


def _ordering_arguments(line: LaunchLine) -> Sequence[str]:
    if line.kind is not LauncherKind.OPENMPI:
        return ()
    by_variable = any(
        option.name.endswith("mca") and option.values[0].startswith("rmaps_")
        for option in line.options
        if option.values
    )
    ordered = line.has(OPENMPI.ordering | OPENMPI.per_host)
    return () if ordered or by_variable else _RANK_IN_ORDER
