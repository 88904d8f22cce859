"""The line that was meant, where the words that were typed are none: for the hint of their error.

Each word is told by what it is, not by where it stands: a verb, a machine, a pattern, a number of
ranks, a file, a launcher, an option of this tool or of another one. The line is then written anew
with each in its place, and what is left out filled in. Words that stay unknown give no line.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from toposeat import profile, topology
from toposeat.cli.dropped import DroppedError
from toposeat.cli.settings import read_settings
from toposeat.errors import (
    ApplicationError,
    MissingProgramError,
    NotAsPlannedError,
    ToposeatError,
    UnavailableError,
    UsageError,
    nearest,
)
from toposeat.model.files import path_exists
from toposeat.model.shell_words import shell_line

# Words of other tools, and what the same is called here: a verb, or the beginning of a line.
_ALSO = {
    "discover": "show topology topologies draw info hwloc scan detect gpus devices smi",
    "discover --list": "list ls machines machine catalogue catalog",
    "map --list": "patterns pattern",
    "doctor": "check status diagnose health verify validate test lint",
    "doctor --config": "config configure settings env",
    "map": "place optimize optimise reorder assign placement mapping solve plan predict seat",
    "tune": "auto autotune",
    "run": "exec launch start",
    "profile": "record trace prof monitor capture",
    "choose": "pick select allocate alloc which",
    "compare": "diff ab versus vs",
    "report": "view plot html summary stats table tree flamegraph open print visualize",
    "bench": "benchmark",
    "measure": "bandwidth latency p2p",
    "export": "convert rankfile hostfile write",
    "demo": "example examples tutorial init quickstart hello",
    "--help": "help man usage",
    "--version": "version",
}
# Commands of others that stand for one of ours; what follows them is theirs.
_TOOLS = {
    "discover": "nvidia-smi rocm-smi amd-smi xpu-smi mx-smi lstopo hwloc-ls hwloc-info lspci nvtop"
    " nvitop gpustat rocminfo topo",
    "measure": "nvbandwidth p2pbandwidthlatencytest rocm-bandwidth-test all_reduce_perf ibstat",
    "map": "vllm sglang trtllm-serve",
}
_TOOL_OF = {word: verb for verb, words in _TOOLS.items() for word in words.split()}
_COUNTED = "one two three four five six seven eight"
_NUMBERS = {word: n for n, word in enumerate(_COUNTED.split(), 1)}
_VERB_OF = {word: line for line, words in _ALSO.items() for word in words.split()}
_LISTS = ("list", "ls", "all", "patterns", "machines", "catalogue", "catalog", "names")

_COUNT = re.compile(
    r"-{1,2}(?:n|np|N|c|g|G|ranks?|ntasks|n?procs?|tasks|gpus?|ngpus?|num-(?:gpus|ranks|procs)|size"
    r"|count|world-size|n?proc-per-node|(?:ntasks|gpus|procs)-per-(?:node|task)|devices)=?(\d*)"
)
_HELP = re.compile(r"-(?:-?help|-h|\?|H|-?usage|-man)|/\?")
_MACHINE_OPTIONS = re.compile(
    r"-{1,2}(?:m|t|machine|system|arch|topo|target|gpu|gpu-type|host-type|catalog|catalogue|on|xml)"
)
_TRAFFIC_OPTIONS = re.compile(r"-{1,2}(?:traffic|pattern|profile|matrix|for|i|input|workload|app)")
_FILE_OPTIONS = re.compile(r"-{1,2}(?:out|O|save|of|out-file|output-file|to|export-json)")
_FILES_OF = {"mpirun": "openmpi", "mpiexec": "mpich", "srun": "slurm", "sbatch": "slurm"}
_EXAMPLE_MACHINE, _EXAMPLE_NETWORK = "hgx-h100", "fattree:8:8:8"
_TRAFFIC_VERBS = ("map", "ask", "bench")


@dataclass
class _Words:
    """The words of a call, told by what they are."""

    verb: str = ""
    kept: list[str] = field(default_factory=list)  # options of the verb, with their arguments
    options: set[str] = field(default_factory=set)  # the names in `kept`
    machines: list[str] = field(default_factory=list)
    near: list[str] = field(default_factory=list)  # other machines that may be meant
    traffic: str = ""
    sizes: list[str] = field(default_factory=list)  # tp=8, of options
    count: int | None = None
    places: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    launch: list[str] = field(default_factory=list)
    listed: bool = False
    unknown: list[str] = field(default_factory=list)


ParserOf = Callable[[str], argparse.ArgumentParser]


@dataclass(frozen=True)
class Tool:
    """What can be typed: the verbs, the parser of each, and what a line is parsed to."""

    verbs: Sequence[str]
    parser_of: ParserOf
    parsed: Callable[[list[str]], dict[str, object]]  # UsageError if it is no line


def with_line_meant(error: ToposeatError, words: Sequence[str], tool: Tool) -> ToposeatError:
    """The error of `words`, typed behind `toposeat`, with the line that they mean as its hint."""
    if isinstance(error, DroppedError):
        return error
    found = _Words()
    line: list[str] = []
    if not isinstance(error, ApplicationError | MissingProgramError | NotAsPlannedError):
        with suppress(ToposeatError, OSError, ValueError):  # a file that cannot be read either
            found, line = _line_meant(list(words), tool)
    if not line or not _is_another(line, list(words), tool):
        found, line = _Words(), _corrected(error, words)
    foreign = "" if line else _of_another_tool(error, words)
    if foreign:
        error.hint = foreign
    elif line:
        near = f"did you mean {' or '.join(found.near)}? type" if found.near else "did you mean"
        error.hint = f"{near}: toposeat {shell_line(line)}"
    return error


def _is_another(line: list[str], words: list[str], tool: Tool) -> bool:
    """Whether a line can be typed, and says something else than the words."""
    if not line or line[0] not in tool.verbs or {"--help", "--list"} & {*line}:
        return line != words
    try:
        meant = tool.parsed(line)
    except UsageError:
        return False
    try:
        return words[0] not in tool.verbs or meant != tool.parsed(words)
    except UsageError:
        return True


# Files of other tools: how each begins or is called, what it is.
_FOREIGN = (
    (
        rb"SQLite format 3\0|NVIDIA.?Nsight",
        r"\.(nsys-rep|qdrep|sqlite|qdstrm|ncu-rep)",
        "a file of Nsight",
    ),
    (rb"==\d+== (NVPROF|Profiling)|.{0,200}\"GPU activities\"", r"\.nvvp", "a file of nvprof"),
    (rb"PERFILE2", r"perf\.data", "a file of perf"),
    (rb"memray", r"memray.*\.bin", "a file of memray"),
    (rb'\s*\{\s*"results":\s*\[\s*\{\s*"command"', "", "a file of hyperfine"),
    (rb"[^\n]*\n\+-+\+\n\| NVIDIA-SMI", "", "the overview of nvidia-smi"),
    (
        rb'\s*[\[{].{0,400}"[^"]*":\s*"[^"]*(NVIDIA|GPU-|AMD|Instinct)',
        "",
        "a list of GPUs",
    ),
    (rb"(index, )?name, |GPU \d+: \S+", "", "a list of GPUs"),
    (rb"rank\s+\d+\s*=", "", "a rankfile"),
    (rb"\S+\s+slots\s*=\s*\d+", "", "a host file"),
    (rb"\x7fELF|#!", r"\.(py|sh)", "a program"),
)
_INSTEAD = {
    "place": "make a placement with: toposeat map ring:8 -t hgx-h100 -o ring.place",
    "machine": "save the machine with: nvidia-smi topo -m > topo.txt (AMD: amd-smi topology), then:"
    " toposeat discover -t topo.txt",
    "traffic": "record what the ranks send with: toposeat profile mpirun -n 8 ./app",
}


def _of_another_tool(error: ToposeatError, words: Sequence[str]) -> str:
    """What to give in place of a file that another tool wrote; "" where it is none known."""
    name = str(getattr(error, "path", None) or "")
    path = Path(name)
    has_remedy = "toposeat discover -t topo.txt" in error.hint
    if name not in words or has_remedy or not (path_exists(path) and path.is_file()):
        return ""
    with path.open("rb") as file:
        head = file.read(1000)
    what = next(
        (
            what
            for mark, ending, what in _FOREIGN
            if re.match(mark, head, re.DOTALL) or (ending and re.search(f"{ending}$", name))
        ),
        "",
    )
    before = words[words.index(name) - 1]
    needed = "machine" if before in ("-t", "--topology", "--node") else "traffic"
    if "placement" in error.message or words[0] in ("compare", "export"):
        needed = "place"
    return f"this is {what}: {_INSTEAD[needed]}" if what else ""


# What makes a file that is not there, by the end of its name.
_MADE_BY = {".prof": "profile -o {} mpirun -n 8 ./app", ".place": "map ring:8 -t hgx-h100 -o {}"}


def _corrected(error: ToposeatError, words: Sequence[str]) -> list[str]:
    """The line with the word that the error's hint corrects, or with a file that is there."""
    near = error.near
    wrong, instead = (near.typed, [near.meant]) if near else ("", [])
    name = str(getattr(error, "path", None) or "")
    if name and error.message.endswith("no such file"):
        path = Path(name)
        there = [each.name for each in path.parent.iterdir()] if path_exists(path.parent) else []
        found = nearest(path.name, there)
        wrong, instead = name, [str(path.with_name(found))] if found else []
        if not found and path.suffix in _MADE_BY:
            return shlex.split(_MADE_BY[path.suffix].format(shlex.quote(name)))
    for at, word in enumerate(words if instead else ()):
        option, equals, value = word.partition("=")
        if wrong == word or (equals and wrong == value):  # --format=sgv
            own = instead if wrong == word else [f"{option}={instead[0]}"]
            return [*words[:at], *own, *words[at + 1 :]]
    return []


def _line_meant(words: list[str], tool: Tool) -> tuple[_Words, list[str]]:
    """What the words are, and the line that they mean; no line where one stays unknown."""
    at = next((at for at, word in enumerate(words) if word in tool.verbs), None)
    before = [] if at is None else words[:at]
    if at is None or not all(word.startswith("-") or _machine(word) for word in before):
        return _without_verb(words, tool)
    found = _Words(verb=words[at])
    _tell_apart(found, [*before, *words[at + 1 :]], tool.parser_of(found.verb))
    return found, [] if found.unknown else _written(found, tool.parser_of)


def _without_verb(words: list[str], tool: Tool) -> tuple[_Words, list[str]]:
    """The line of words that name no verb: by a near or another word for one, or by what it is."""
    from toposeat.launch.line import launcher_named  # noqa: PLC0415

    first = words[0] if words else ""
    name = first.lstrip("-").lower()
    also = "--help" if _HELP.fullmatch(first) else _VERB_OF.get(name, "")
    line = shlex.split(also)
    if len(line) > 1 or also.startswith("-"):
        return _Words(), line
    if name in _TOOL_OF:
        return _of_tool(name, words[1:], tool)
    is_launcher = launcher_named(first, nearly=False)
    verb = line[0] if line else "" if is_launcher else nearest(name, tool.verbs, 0.7)
    if verb and (line or not path_exists(Path(first))):
        return _line_of(verb, words[1:], tool)
    return _of_nothing_but_words(words, tool)


def _of_tool(name: str, words: list[str], tool: Tool) -> tuple[_Words, list[str]]:
    """The line for a command of others, of which we take what the ranks are and their model."""
    found, said = _Words(verb=_TOOL_OF[name]), _Words()
    if found.verb == "map":
        _tell_apart(said, words, argparse.ArgumentParser(add_help=False))
        found.sizes = said.sizes
        found.traffic = next(filter(_names_model, words), "" if said.sizes else name)
    return found, _written(found, tool.parser_of)


def _of_nothing_but_words(words: list[str], tool: Tool) -> tuple[_Words, list[str]]:
    """The line of words without a verb: a machine, a pattern, a program, a number."""
    from toposeat.launch.line import launcher_named  # noqa: PLC0415

    found = _Words()
    _tell_apart(found, words, argparse.ArgumentParser(add_help=False))
    if found.unknown and any(map(_is_program, words[1:])):  # of a launcher that nobody knows
        found.unknown.clear()
        near = launcher_named(words[0])
        return found, ["tune", near, *words[1:]] if near else ["tune", "--", *words]
    if len(words) == 1 and found.launch and _is_program(words[0]):
        found.count = 8
        words = _launched(found)
    verb = "" if found.unknown else _verb_of(found)
    return _line_of(verb, words, tool) if verb else (found, [])


def _line_of(verb: str, words: list[str], tool: Tool) -> tuple[_Words, list[str]]:
    """The line of a verb that was not typed so: its words may be right as they are."""
    found, line = _line_meant([verb, *words], tool)
    return found, line if line or found.unknown else [verb, *words]


def _names_model(word: str) -> bool:
    return profile.pattern_meant(word).startswith("llm:model=")


def _verb_of(found: _Words) -> str:
    """The verb for what was typed without one."""
    fit = {
        "discover": found.listed,
        "run": found.places and found.launch,
        "compare": found.places,
        "tune": found.launch,
        "map": found.traffic or found.sizes,
        "report": found.files,
        "doctor": found.machines,
        "choose": found.count is not None,
    }
    return next((verb for verb, fits in fit.items() if fits), "")


def _tell_apart(found: _Words, words: list[str], parser: argparse.ArgumentParser) -> None:
    """Put each word where it belongs."""
    command = parser.get_default("command")
    takes_line = not found.verb or command.wraps
    whole = not found.verb or command.needs_line  # what follows a program is its own
    at = 0
    while at < len(words):
        word, rest = words[at], words[at + 1 :]
        at += 1
        if word == "--":
            found.launch = rest
            return
        if word.startswith("-") and len(word) > 1:
            at += _option(found, word, rest, parser)
        elif takes_line and (whole or not _is_program(word)) and _starts(word, found, whole=whole):
            found.launch = [word, *rest]
            _take_back(found, parser)
            return
        else:
            _free(found, word, parser)


def _take_back(found: _Words, parser: argparse.ArgumentParser) -> None:
    """Options at the end of the job's line that are ours: `-t MACHINE`, `-p PLACEMENT`."""
    *_, option, value = ("", "", *found.launch)
    is_machine = option == "-t" and _machine(value)
    is_place = option == "-p" and _kind_of_file(Path(value)) == "place"
    if (is_machine or is_place) and option in parser._option_string_actions:
        del found.launch[-2:]
        (found.machines if is_machine else found.places).append(value)


def _starts(word: str, found: _Words, *, whole: bool) -> bool:
    """Whether the job's own line starts with this word."""
    from toposeat.launch.line import launcher_named  # noqa: PLC0415

    if word.startswith("/") and launcher_named(Path(word).name, nearly=False):
        return True
    if _is_program(word) or word.endswith(".sh"):
        return not path_exists(Path(word)) or _kind_of_file(Path(word)) == ""
    if _machine(word) or word.isdigit() or found.verb in ("choose", "discover", "doctor"):
        return False
    if whole and shutil.which(word) is not None:
        return True
    return (
        "." not in word
        and ":" not in word
        and bool(launcher_named(word, nearly=whole and bool(found.verb)))
    )


def _option(found: _Words, word: str, rest: list[str], parser: argparse.ArgumentParser) -> int:
    """Take one option; how many of the words behind it are its own."""
    known = parser._option_string_actions
    name, equals, value = word.partition("=")
    plain = name.lower().replace("_", "-")
    action = _known(name, known)
    if action is not None:
        return _own_option(found, word, rest, action, parser)
    following = next((w for w in rest[:1] if not w.startswith("-") or w == "-"), "")
    used = _option_of_others(found, word, plain, value or following, parser)
    if used is not None:
        return 0 if equals else used
    near = nearest(plain, known, 0.7) if len(plain) > 4 else ""
    if near:
        return _own_option(found, near + equals + value, rest, known[near], parser)
    found.unknown.append(word)
    return 0


def _option_of_others(
    found: _Words, word: str, plain: str, value: str, parser: argparse.ArgumentParser
) -> int | None:
    """Take an option that other tools have; how many words it takes, None where it is none."""
    short = word if len(word) == 2 or "=" not in word else plain
    count = _COUNT.fullmatch(plain if len(plain) > 2 else word) or _COUNT.fullmatch(short)
    size = profile.SIZES.get(re.sub("[^a-z]", "", plain))
    used: int | None = 1
    if _HELP.fullmatch(plain) or _HELP.fullmatch(word):
        found.kept.append("--help")
        used = 0
    elif plain in ("--list", "--list-gpus") or (plain == "-l" and not value):
        found.listed, used = True, 0
    elif plain == "-l" and _is_choice(found, value, parser):
        pass
    elif count and (count[1] or value.isdigit()):
        found.count, used = int(count[1] or value), int(not count[1])
    elif size and value.isdigit():
        found.sizes.append(f"{size}={value}")
    elif value and plain == "--model":
        found.sizes.append(f"model={value}")
    elif value and (_MACHINE_OPTIONS.fullmatch(plain) or _TRAFFIC_OPTIONS.fullmatch(plain)):
        _free(found, value, parser)
    elif value and _FILE_OPTIONS.fullmatch(plain) and "-o" in parser._option_string_actions:
        found.kept += ["-o", value]
    else:
        used = None
    return used


def _known(name: str, known: dict[str, argparse.Action]) -> argparse.Action | None:
    """The verb's own option of this name, or of this beginning."""
    if name in known:
        return known[name]
    if name.startswith("--"):
        near = {id(action): action for each, action in known.items() if each.startswith(name)}
        return next(iter(near.values())) if len(near) == 1 else None
    short = known.get(name[:2])
    return short if short is not None and short.nargs is None and not name[2:3].isalpha() else None


def _own_option(
    found: _Words,
    word: str,
    rest: list[str],
    action: argparse.Action,
    parser: argparse.ArgumentParser,
) -> int:
    """An option of the verb, with the arguments behind it."""
    takes = action.nargs is None and "=" not in word and (word in action.option_strings
                                                          or word.startswith("--"))  # fmt: skip
    value = rest[0] if takes and rest else word.partition("=")[2]
    if action.dest == "topology" and value:
        _free(found, value, parser, is_machine=True)
    elif action.dest == "traffic" and value:
        found.kept += ["--for" if "--for" in action.option_strings else "--traffic"]
        found.kept.append(profile.pattern_meant(value, ranks=found.count) or value)
    elif action.dest == "count":
        found.count = int(value)
    elif isinstance(action.nargs, str):
        several = next((at for at, w in enumerate(rest) if w.startswith("-")), len(rest))
        found.kept += [word, *rest[:several]]
        return several
    else:
        found.kept += [word, *rest[: int(takes)]]
    found.options.add(action.dest)
    return int(takes and bool(rest))


def _free(
    found: _Words, word: str, parser: argparse.ArgumentParser, *, is_machine: bool = False
) -> None:
    """A word that is no option: of which kind it is."""
    free = not found.traffic and not is_machine
    if path_exists(Path(word)):
        _file(found, word, is_machine=is_machine)
    elif word in _LISTS:
        found.listed = True
    elif word in ("help", "usage"):
        found.kept.append("--help")
    elif free and found.verb in (*_TRAFFIC_VERBS, "report") and profile.pattern_meant(word) == word:
        found.traffic = word  # ring:8 is a machine, too
    elif _machine(word):
        found.machines.append(word)
    elif not is_machine and (word.isdigit() or word in _NUMBERS):
        found.count = _NUMBERS.get(word) or int(word)
    elif not is_machine and _is_size(word):
        found.sizes.append(word)
    elif not found.traffic and not _has_product(word) and profile.pattern_meant(word):
        found.traffic = word
    elif near := topology.near_machines(word):
        found.machines.append(near[0])
        found.near = near
    elif found.verb == "export" and word in _FILES_OF:
        found.launch = [word]
    elif not _is_choice(found, word, parser):
        _other(found, word)


def _file(found: _Words, word: str, *, is_machine: bool) -> None:
    """A file that is there: by what it holds."""
    kind = _kind_of_file(Path(word))
    if kind:
        {"machine": found.machines, "place": found.places}.get(kind, found.files).append(word)
    elif is_machine:
        found.unknown.append(word)
    elif not found.launch:
        found.launch = [word if "/" in word or _is_program(word) else f"./{word}"]


def _is_choice(found: _Words, word: str, parser: argparse.ArgumentParser) -> bool:
    """Take a word that only one option of the verb allows."""
    fit = [action for action in parser._actions if action.choices and word in action.choices]
    if len(fit) != 1 or not fit[0].option_strings:
        return False
    found.kept += [fit[0].option_strings[-1], word]
    found.options.add(fit[0].dest)
    return True


def _other(found: _Words, word: str) -> None:
    """A file that is not there, by its name; what is left is unknown."""
    suffix = Path(word).suffix
    if suffix == ".place":
        found.places.append(word)
    elif suffix in (".prof", ".csv", ".npy", ".npz", ".json", ".html", ".log"):
        found.files.append(word)
    elif re.fullmatch(r"\d+(x\d+)+", word) and found.traffic and ":" not in found.traffic:
        found.traffic += f":{word}"
    else:
        found.unknown.append(word)


def _is_size(word: str) -> bool:
    return re.fullmatch(r"((tp|pp|dp|cp|ep)=?\d+,?)+", word, re.IGNORECASE) is not None


def _has_product(word: str) -> bool:
    """Whether a word is nearer to a machine than to a pattern: it has a product's number in it."""
    has_number = re.search(r"\d{2}", word) is not None
    return ":" not in word and "=" not in word and has_number and bool(topology.near_machines(word))


def _machine(word: str) -> bool:
    """Whether a word names a machine, in any way but by a file."""
    from toposeat.model.shape_text import is_shape  # noqa: PLC0415
    from toposeat.topology.synthetic import looks_synthetic  # noqa: PLC0415

    if word in ("this", "-"):
        return True
    return topology.machine_path(word) is not None or looks_synthetic(word) or is_shape(word)


def _kind_of_file(path: Path) -> str:
    """`place`, `machine`, `traffic` or `file` for what a file holds; "" where it is a program."""
    if not path.is_file():
        return "traffic" if path.is_dir() and profile.holds_traffic(path) else ""
    with path.open("rb") as file:
        head = file.read(400)
    if head.startswith(b"# toposeat/placement/"):
        return "place"
    if head.startswith((b"#!", b"\x7fELF")) or path.suffix in (".py", ".sh"):
        return ""
    if profile.holds_traffic(path):
        return "traffic"
    try:
        topology.read_topology(path)
    except ToposeatError:
        return "machine" if topology.is_network(str(path)) else "file"
    return "machine"


def _written(found: _Words, parser_of: ParserOf) -> list[str]:
    """The line, each word in its place."""
    if "--help" in found.kept or "-h" in found.kept:
        return [found.verb, "--help"]
    if found.listed:
        return [found.verb if found.verb == "map" else "discover", "--list"]
    if found.verb == "map" and found.places and not (found.traffic or found.files or found.sizes):
        found.verb = "compare"
    if found.verb == "report" and found.machines and not found.files and not found.places:
        found.verb = "discover"
    if found.verb == "map" and found.launch and not (found.traffic or found.files or found.sizes):
        found.verb = "tune"  # a program is no traffic, which is recorded first
    parser = parser_of(found.verb)
    actions = {action.dest: action for action in parser._actions}
    first = _first(found)
    if first is None or (found.machines and "topology" not in actions):
        return []
    if found.verb == "ask" and found.machines and not topology.is_network(found.machines[0]):
        found.kept += ["--node", found.machines.pop(0)]
        found.options.add("node")
    line = [found.verb, *first, *found.kept]
    line += [word for machine in found.machines for word in ("-t", machine)]
    if not found.machines and "topology" in actions:
        line += _machine_to_name(found, required=actions["topology"].required)
    if found.verb == "map":
        line += _slots(found, line[1])
    if found.verb == "bench" and not found.launch and "on" not in found.options:
        line += ["--on", "model"]
    return [*line, *_launch(found, parser)]


def _machine_to_name(found: _Words, *, required: bool) -> list[str]:
    """`-t SRC` where there is no default, or this machine would be it and has no GPU."""
    if required:
        if found.verb != "ask":
            return ["-t", _EXAMPLE_MACHINE]
        node = [] if "node" in found.options else ["--node", _EXAMPLE_MACHINE]
        return ["-t", _EXAMPLE_NETWORK, *node]
    if found.verb not in ("map", "choose", "bench") or found.launch:
        return []
    settings, _ = read_settings(os.environ, Path.cwd(), forgiving=True)
    if {"machine", "network"} & settings.keys() or {"node", "hosts"} & found.options:
        return []
    try:
        topology.read_topology("this")
    except UnavailableError:
        return ["-t", _EXAMPLE_MACHINE]
    return []


def _first(found: _Words) -> list[str] | None:
    """What stands first behind the verb; None where it cannot be told."""
    devices = _devices(found.machines)
    words: list[str] | None = []
    if found.verb in _TRAFFIC_VERBS:
        text = _traffic(found, found.count or devices)
        words = [text] if text else None
    elif found.verb == "choose":
        count = found.count or devices or 4
        words = [str(min(count, devices or count))]
    elif found.verb in ("export", "compare"):
        words = None if found.files else found.places or [_here("*.place", "app.place")]
        if words and found.verb == "export" and "launcher" not in found.options:
            launcher = _FILES_OF.get(next(iter(found.launch), ""), "openmpi")
            words, found.launch = [words[0], "--launcher", launcher], []
    elif found.verb == "report":
        more = ["--traffic", found.traffic] if found.traffic else []
        words = [*found.files, *found.places, *more] or [_here("*.prof", "app.prof")]
    elif found.verb in ("run", "advise") and "placement" not in found.options:
        needed = [_here("*.place", "app.place")] if found.verb == "advise" else []
        place = (found.places or needed)[:1]
        words = ["-p", *place] if place else []
    elif found.places or found.files or found.traffic:
        words = None
    return words


def _traffic(found: _Words, ranks: int | None) -> str:
    """The traffic of `map`: a file, a pattern, or the pattern that sizes and a number mean."""
    if found.files:
        return found.files[0]
    if not found.traffic and len(found.machines) > 1:  # ring:8 is a machine, too
        patterns = [each for each in found.machines if profile.pattern_meant(each) == each]
        found.traffic = next(iter(patterns), "")
        found.machines = [each for each in found.machines if each != found.traffic]
    text = ",".join([*([found.traffic] if found.traffic else []), *found.sizes]) or "ring"
    return profile.pattern_meant(text, ranks=ranks)


def _devices(machines: list[str]) -> int | None:
    """How many GPUs the machine has, where it is one node that can be read."""
    try:
        return len(topology.read_topology(machines[0]).devices) if machines else None
    except ToposeatError:
        return None


def _slots(found: _Words, traffic: str) -> list[str]:
    """`--slots N` where the pattern has more ranks than the machine has GPUs."""
    devices = _devices(found.machines)
    if not devices or found.options & {"slots", "devices", "exclude", "allow", "node"}:
        return []
    ranks = profile.read_traffic(traffic).ranks
    return ["--slots", str(-(-ranks // devices))] if ranks > devices else []


def _launch(found: _Words, parser: argparse.ArgumentParser) -> list[str]:
    """The job's own line, with a launcher where a number of ranks says that one is needed."""
    command = parser.get_default("command")
    if not command.wraps or not (command.needs_line or found.launch):
        return []
    if not command.needs_line:
        return ["--", *found.launch]
    if not found.launch:
        found.launch, found.count = ["./app"], found.count or 8
    alone = found.verb == "tune" and _is_program(found.launch[0])
    found.count = found.count or (_devices(found.machines) or 8 if alone else None)
    return found.launch if found.count is None else _launched(found)


def _launched(found: _Words) -> list[str]:
    """The program with the launcher of its kind in front."""
    script = found.launch[0].endswith(".py")
    launcher = ["torchrun", "--nproc-per-node"] if script else ["mpirun", "-n"]
    return [*launcher, str(found.count), *found.launch]


def _is_program(word: str) -> bool:
    """Whether a word is a program of the user, not a launcher by its path."""
    from toposeat.launch.line import launcher_named  # noqa: PLC0415

    is_path = word.startswith(("./", "/")) or word.endswith(".py")
    return is_path and not launcher_named(Path(word).name, nearly=False)


def _here(pattern: str, otherwise: str) -> str:
    """The newest file of a kind in this folder."""
    found = sorted(Path().glob(pattern), key=lambda path: path.stat().st_mtime)
    return str(found[-1]) if found else otherwise
