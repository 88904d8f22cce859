"""What every verb has: a name, a help line, arguments, and what it does."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TextIO

from toposeat.cli.settings import decided_words
from toposeat.errors import ToposeatError, UsageError
from toposeat.model.map_options import METRICS, OBJECTIVES, SOLVERS, Constraints, MapOptions
from toposeat.model.shell_words import joined_sources, names_this, shell_word, sources_in

if TYPE_CHECKING:
    from toposeat.model.evaluation import MappingResult
    from toposeat.model.topology import Topology
    from toposeat.model.traffic import Traffic
    from toposeat.report import TextStyle


EXIT_FAILED, EXIT_USAGE, EXIT_MISSING_PROGRAM = 1, 2, 127


class Command:
    """One verb. The first line of the class's docstring is its help line."""

    name: ClassVar[str]
    wraps: ClassVar[bool] = False  # takes `-- LAUNCH...`; set on `args.launch`
    needs_line: ClassVar[bool] = False  # and nothing else that is no option: `--` may be left out
    usage: ClassVar[str] = ""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare this verb's options."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it; return the exit code."""
        raise NotImplementedError


class _Sources(argparse.Action):
    """Sources of one machine as one text, which every reader of sources takes."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Add one more."""
        del parser, option_string
        known = getattr(namespace, self.dest)
        told = sources_in(known) if isinstance(known, str) else []
        setattr(namespace, self.dest, joined_sources([*told, values]))


def add_remote_option(parser: argparse._ActionsContainer) -> None:
    """Declare --remote."""
    parser.add_argument(
        "--remote",
        metavar="PATH",
        default="",
        help="the folder of toposeat's native parts (.../toposeat/_native) on the nodes, if it "
        "is another one than here",
    )


def add_flag(parser: argparse._ActionsContainer, name: str, help: str) -> None:
    """An option without an argument."""
    parser.add_argument(name, action="store_true", help=help)


def add_topology_option(
    parser: argparse._ActionsContainer,
    *,
    required: bool = True,
    dest: str = "topology",
    help: str = "",
) -> None:
    """`-t SRC`: the machine, as often as there are sources of it."""
    parser.add_argument(
        "-t",
        "--topology",
        dest=dest,
        metavar="SRC",
        required=required,
        action=_Sources,
        help=help
        or "the machine: `this`, a file of any known format, `nvidia-smi topo -m` text among them,"
        " - (standard input), a catalogue name (k80-16, dgx-1v, ...), a synthetic string; again for"
        " more sources of the same machine; `map` also takes the shape of a large one",
    )


def read_machine(source: str | None, *, to_plan: bool = False) -> Topology:
    """The machine of `add_topology_option`, this one by default; what its texts held is said.

    `to_plan`: of this machine the part that is the job's, by the lists that it inherited.
    """
    from toposeat import topology  # noqa: PLC0415
    from toposeat.model.visible_list import numbering_note  # noqa: PLC0415

    machine = topology.read_topology("this" if source is None else source)
    if to_plan:
        machine = topology.part_of_job(machine, source, os.environ)
        tell(*topology.said_of_lists(machine))
    if note := numbering_note(machine):
        tell(note)
    said = [line for line in machine.report if line.startswith(topology.FOUND)]
    tell(*(f"Found{line[5:]}" for line in said))
    return replace(machine, report=tuple(line for line in machine.report if line not in said))


def environment_of(source: str | None) -> Mapping[str, str] | None:
    """The environment of this process, where the machine is this one: elsewhere it says nothing."""
    return os.environ if names_this(source) else None


def source_words(source: str) -> str:
    """` -t SRC` for each source of a machine, to type."""
    return "".join(f" -t {quoted(each)}" for each in sources_in(source))


def _is_of_language_model(traffic: str | None) -> bool:
    return str(traffic).startswith("llm:")


def starts_node_by_node(args: argparse.Namespace) -> bool:
    """Whether a line for each node starts the job: that of a language model, on several nodes."""
    return args.launch is None and args.node is not None and _is_of_language_model(args.traffic)


def job_words(traffic: str | None, ranks: int | str, launcher: str = "mpirun") -> list[str]:
    """How a job of such traffic is started on one node: a line to copy."""
    if _is_of_language_model(traffic):
        return ["torchrun", "--nproc-per-node", str(ranks), "train.py"]
    return [launcher, "-n", str(ranks), "./app"]


def add_network_options(parser: argparse.ArgumentParser) -> None:
    """`--node SRC`, `--hosts LIST`: what is inside the hosts of a network, and which are used."""
    group = parser.add_argument_group("networks of hosts")
    group.add_argument(
        "--node",
        metavar="SRC",
        action=_Sources,
        help="with -t NETWORK (Slurm topology.conf, ibnetdiscover, ... or fattree:8:16:32): the "
        "topology of every host, anything that -t takes for one node; again for more sources of it",
    )
    group.add_argument(
        "--hosts",
        metavar="LIST",
        help="the hosts of the job: n[01-16], a file with one per line, or `job` inside a job "
        "(default: all)",
    )


def add_output_option(parser: argparse._ActionsContainer, what: str) -> None:
    """`-o F` and `-f`."""
    parser.add_argument("-o", "--output", metavar="F", type=Path, help=f"write {what} to F")
    add_force_option(parser)


def add_force_option(parser: argparse._ActionsContainer) -> None:
    """`-f`: overwrite."""
    parser.add_argument("-f", "--force", action="store_true", help="overwrite existing files")


def add_everyday_group(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """What most lines need, shown before the other groups."""
    return parser.add_argument_group("everyday options")


def add_goal_options(group: argparse._ActionsContainer) -> None:
    """What a placement is for, and how long it may be looked for."""
    group.add_argument(
        "--objective",
        choices=OBJECTIVES,
        default="time",
        help="what to minimise (default: time, the predicted flow time)",
    )
    group.add_argument(
        "--budget",
        metavar="S",
        type=positive_seconds,
        default=None,
        help="seconds that the search may take (default: 1; for the shape of a large machine 10)",
    )
    group.add_argument(
        "--min-gain",
        metavar="PERCENT",
        type=percent,
        default=1,
        help="keep the default placement if less than this share of its time (or of what "
        "--objective names) could be saved (default: 1)",
    )


def add_solver_options(group: argparse._ActionsContainer) -> None:
    """How a placement is searched for."""
    add_metric_option(group)
    group.add_argument("--solver", choices=SOLVERS, default="auto", help="default: auto")


def add_metric_option(group: argparse._ActionsContainer) -> None:
    """`--metric`."""
    group.add_argument(
        "--metric",
        choices=METRICS,
        default="bandwidth",
        help="what the cost of a pair of devices is computed from (default: bandwidth)",
    )


def add_clock_options(parser: argparse._ActionsContainer, repeated: str) -> None:
    """`--repeats N`, of what is `repeated` (None: five), and `--time REGEX`."""
    parser.add_argument("--repeats", metavar="N", type=int, help=f"{repeated} (default: 5)")
    parser.add_argument(
        "--time",
        metavar="REGEX",
        help="finds the seconds that the program prints, as group 1, e.g. '([0-9.]+) s'; the "
        "last match counts (default: the wall time of the launch line)",
    )


def add_stack_option(parser: argparse._ActionsContainer) -> None:
    """`--stack NAME`: what moves messages between GPUs."""
    parser.add_argument(
        "--stack",
        metavar="NAME",
        help="the MPI that predictions are made for, where no launch line shows it: openmpi-ucx,"
        " openmpi-ob1, mpich, cray-mpich, intel-mpi, or direct for copies straight between GPUs; or"
        " what NCCL is told: NCCL_P2P_LEVEL=SYS, NCCL_P2P_DISABLE=1",
    )


def map_options(
    args: argparse.Namespace,
    *,
    constraints: Constraints | None = None,
    explained: bool = False,
) -> MapOptions:
    """The options of `add_goal_options`, `add_solver_options` where a verb has them, and others."""
    searched = {name: getattr(args, name) for name in ("metric", "solver") if name in args}
    return MapOptions(
        objective=args.objective,
        budget_s=args.budget,
        min_gain=args.min_gain / 100,
        constraints=constraints or Constraints(),
        explained=explained,
        **searched,
    )


def positive_seconds(text: str) -> float:
    """Argparse type: seconds > 0."""
    value = _number(text, float)
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"expected a positive number of seconds, got {text}")
    return value


def percent(text: str) -> float:
    """Type for argparse: 0 to 100."""
    value = _number(text, float)
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"expected 0 to 100 percent, got {text}")
    return value


def natural(text: str) -> int:
    """Argparse type: an integer >= 0."""
    value = int(_number(text, int))
    if value < 0:
        raise argparse.ArgumentTypeError(f"expected a number >= 0, got {text}")
    return value


def _number(text: str, kind: Callable[[str], float]) -> float:
    try:
        return kind(text)
    except ValueError:
        whole = "a whole number" if kind is int else "a number"
        raise argparse.ArgumentTypeError(f"expected {whole}, got {text!r}") from None


# Launchers that hand the job to a service, where it may outlive them.
_CANCEL = {
    "srun": 'squeue --steps --user="$USER", then: scancel JOB.STEP',
    "flux": "flux jobs, then: flux cancel JOB",
}


def require_launch(args: argparse.Namespace, verb: str) -> list[str]:
    """The wrapped command, or a usage error that shows the form.

    Where the job could go on after a killed toposeat, the line that ends it is printed now.
    """
    launch: Sequence[str] = args.launch or ()
    if not launch:
        raise UsageError(
            f"{verb}: no command to run",
            hint=f"put it behind the options: toposeat {verb} -- mpirun -n 8 ./app",
        )
    how = next(filter(None, (_CANCEL.get(Path(word).name) for word in launch)), None)
    if how is not None and not getattr(args, "dry_run", False):
        tell(f"note: if toposeat is killed and the job goes on, end it with: {how}")
    return list(launch)


def print_error(error: ToposeatError) -> None:
    """One line of cause, one of hint, on stderr."""
    tell(f"error: {error.message}")
    if error.hint:
        tell(f"hint:  {error.hint}")


def print_json(document: Any, args: argparse.Namespace | None = None) -> None:
    """A result as JSON on stdout, with what settings files decided of the verb's arguments."""
    if args is not None:
        document = with_decided(document, args)
    write_result(json.dumps(document, allow_nan=False) + "\n")


def with_decided(document: dict[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    """A document with what settings files decided of the verb's arguments."""
    if not args.decided:
        return document
    decided = {k: {"value": v.value, "source": v.source} for k, v in args.decided.items()}
    return {**document, "settings": decided}


def show_decided(args: argparse.Namespace, *, as_remark: bool = False) -> None:
    """Say what settings files decided: on stdout below a text, or on stderr."""
    words = decided_words(args)
    if words and as_remark:
        tell(f"Settings  {words}")
    elif words:
        write_result(f"Settings  {words}\n")


def print_command(command: Sequence[str]) -> None:
    """Print a command as the bytes that a shell reads back."""
    write_result(os.fsencode(shlex.join(command) + "\n"))


def write_result(content: str | bytes) -> None:
    """Write the whole result to stdout. A closed pipe is no error."""
    try:
        if isinstance(content, bytes):
            sys.stdout.flush()
            sys.stdout.buffer.write(content)
        else:
            sys.stdout.write(content)
        sys.stdout.flush()
    except OSError as error:
        _abandon(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            raise ToposeatError(
                f"cannot write the result: {error.strerror or error}",
                hint="check what standard output is connected to, and its free space",
            ) from error


def style_of(stream: TextIO) -> TextStyle:
    """How text on `stream` is laid out: width and colour of a terminal, plain otherwise."""
    from toposeat.report import text_style_for  # noqa: PLC0415

    columns = _columns() if stream.isatty() else None
    return text_style_for(stream, os.environ, columns=columns)


def _columns() -> int:
    import shutil  # noqa: PLC0415 - a pipe has no width

    return shutil.get_terminal_size().columns


def show(stream: TextIO, render: Callable[..., str], *nouns: Any) -> None:
    """Write nouns as text, laid out for `stream`: stdout for a result, else stderr."""
    text = render(*nouns, style_of(stream))
    if stream is sys.stdout:
        write_result(text)
    else:
        _to_stderr(text)


def show_mapping(
    result: MappingResult, topology: Topology | None, traffic: Traffic, *, verbose: bool
) -> None:
    """Write a mapping to stdout: the answer and why, or all of it."""
    from toposeat import report  # noqa: PLC0415

    render = partial(report.render_mapping_text, verbose=verbose)
    show(sys.stdout, render, result, topology, traffic)


def tell(*lines: str) -> None:
    """Write remarks to stderr, one line each: no name can break a line.

    A long hint or next step goes on in a further line, never within a quotation; a command to copy
    goes on after a backslash, so that all of it can be pasted.
    """
    for line in lines:
        text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)
        _to_stderr(_folded(text) + "\n")


_WIDTH = 120  # columns of a hint, of a next step
_COMMAND = re.compile(": (toposeat|mpirun) ")  # in a hint
# What no shell breaks: words, with what they quote.
_WORD = re.compile(r"""(?:\$'(?:\\.|[^'\\])*'|'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s'"\\])+""")


def _folded(line: str) -> str:
    if len(line) <= _WIDTH or not line.startswith(("hint:", "Next:")):
        return line
    if line.startswith("Next:"):
        return _continued(line)
    folded = [""]
    for clause in line.split("; "):
        last = folded[-1]
        quotes = re.sub(r"\w'\w", "", last)  # without apostrophes
        is_open = last.count("(") > last.count(")") or any(quotes.count(q) % 2 for q in "'`\"")
        if last and not is_open and len(f"{last}; {clause};") > _WIDTH:
            folded[-1] = f"{last};"
            folded.append(f"       {clause}")
        else:
            folded[-1] = f"{last}; {clause}" if last else clause
    return "\n".join(_continued(each) if _COMMAND.search(each) else each for each in folded)


def _continued(line: str) -> str:
    """A command on several lines, unless it has a comment, or a quotation that does not end."""
    start = re.match(r"(hint:|Next:)? *", line)
    assert start is not None
    command = line[start.end() :]
    words = _WORD.findall(command)
    if " ".join(words) != command or any(word.startswith("#") for word in words):
        return line
    rows = [start[0] + words[0]]
    for word in words[1:]:
        if len(f"{rows[-1]} {word} \\") > _WIDTH:
            rows[-1] += "" if re.search(r"[^\\];$", rows[-1]) else " \\"
            rows.append(f"{' ' * (start.end() + 2)}{word}")
        else:
            rows[-1] += f" {word}"
    return "\n".join(rows)


def _to_stderr(text: str) -> None:
    """Write to stderr; a remark that cannot be written does not stop the work."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        _abandon(sys.stderr)


def _abandon(stream: TextIO) -> None:
    """Redirect a broken stream to /dev/null.

    Python would try again at its end with what is left in the buffer, and end with 120.
    """
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def quoted(path: object) -> str:
    """A file name as one word of a command to type."""
    return shell_word(path)
