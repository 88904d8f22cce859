"""How a launcher hands variables of this process to the ranks: by their names, never by values.

A launch line is public: other users of a node can read it. So a secret is put into the launcher's
environment, and the line says its name where it says any. Most launchers hand on everything unless
the user says otherwise; what the user says is extended, not overruled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from toposeat.launch.launch_line import LaunchLine
from toposeat.launch.launchers import LauncherKind
from toposeat.launch.line_options import Option

_ENV_LIST = "mca_base_env_list"  # Open MPI refuses -x beside it
_NOTHING = ("NONE", "NIL")  # of srun --export


def hand_on(
    line: LaunchLine, names: Sequence[str], environment: Mapping[str, str]
) -> tuple[LaunchLine, dict[str, str]]:
    """The line with which these variables reach the ranks, and what else to set for that.

    mpirun_rsh has no way to hand on a value but to write it into command lines: its line stays.

    Args:
        line: the job's.
        names: variables that will be in the launcher's environment.
        environment: of the job.
    """
    if not names:
        return line, {}
    if line.kind is LauncherKind.OPENMPI:
        return _of_openmpi(line, names, environment)
    if line.kind is LauncherKind.SRUN:
        return _of_srun(line, names, environment)
    if line.kind in (LauncherKind.MPICH, LauncherKind.INTEL, LauncherKind.PALS):
        return _of_hydra(line, names), {}
    if line.kind is LauncherKind.FLUX and line.has({"env"}):  # rules, of which the last counts
        last = line.options[-1]
        return line.exchanged(last, (*last.words, *(f"--env={name}" for name in names))), {}
    return line, {}


def _of_openmpi(
    line: LaunchLine, names: Sequence[str], environment: Mapping[str, str]
) -> tuple[LaunchLine, dict[str, str]]:
    listed = next((o for o in line.options if o.values[:1] == (_ENV_LIST,)), None)
    if listed is not None:
        value = ";".join((listed.values[1], *names))
        return line.exchanged(listed, (listed.words[0], _ENV_LIST, value)), {}
    variable = f"OMPI_MCA_{_ENV_LIST}"
    if environment.get(variable):
        return line, {variable: ";".join((environment[variable], *names))}
    words = tuple(word for name in names for word in ("-x", name))
    further = (
        replace(each, launcher=(*each.launcher[:1], *words, *each.launcher[1:]))
        for each in line.further
    )
    return replace(line.changed(words), further=tuple(further)), {}


def _of_srun(
    line: LaunchLine, names: Sequence[str], environment: Mapping[str, str]
) -> tuple[LaunchLine, dict[str, str]]:
    variable = "SLURM_EXPORT_ENV"  # sbatch --export sets it for the job
    option = next((o for o in reversed(line.options) if o.name == "export"), None)
    value = option.values[-1] if option is not None else environment.get(variable)
    given = [] if value is None or value in _NOTHING else value.split(",")
    if value is None or "ALL" in given:
        return line, {}
    value = ",".join((*given, *names))
    if option is None:
        return line, {variable: value}
    return line.exchanged(option, (f"--export={value}",)), {}


def _of_hydra(line: LaunchLine, names: Sequence[str]) -> LaunchLine:
    for option in line.options:
        words = _hydra_words(option, names)
        if words != option.words:
            line = line.exchanged(option, words)
    further = []
    for each in line.further:
        own = [word for option in each.options for word in _hydra_words(option, names)]
        length = sum(len(option.words) for option in each.options)
        rest = each.launcher[1 + length :]
        further.append(replace(each, launcher=(*each.launcher[:1], *own, *rest)))
    return replace(line, further=tuple(further))


def _hydra_words(option: Option, names: Sequence[str]) -> tuple[str, ...]:
    """`-genvlist A` and `-envlist A` with more names; `-genvnone` becomes a list of these alone."""
    if option.name in ("genvlist", "envlist"):
        listed = ",".join((option.values[-1], *names))
        first, equals, _ = option.words[0].partition("=")
        return (f"{first}={listed}",) if equals else (first, listed)
    if option.name in ("genvnone", "envnone"):
        return (option.words[0].replace("none", "list"), ",".join(names))
    return option.words
