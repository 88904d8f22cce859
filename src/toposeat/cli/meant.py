"""What was meant by a word that a line has in the wrong place, or that is no verb: for its hint."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from toposeat.errors import ToposeatError, nearest
from toposeat.model.files import path_exists
from toposeat.model.shell_words import shell_line

# What a verb is called elsewhere.
_ALSO = {
    "ask": "request sbatch salloc",
    "choose": "pick select allocate",
    "compare": "diff benchmark",
    "discover": "show topology topo list machines catalogue lstopo nvidia-smi rocm-smi amd-smi",
    "doctor": "check status health diagnose validate",
    "export": "convert rankfile hostfile",
    "map": "place optimize optimise reorder predict",
    "measure": "bandwidth latency",
    "profile": "record trace",
    "report": "view plot html flamegraph",
    "run": "exec launch start",
    "--help": "man usage",
    "--version": "version",
}
_VERB_OF = {other: verb for verb, words in _ALSO.items() for other in words.split()}
_TRAFFIC_VERBS = ("map", "ask", "compare")


def verb_meant(words: Sequence[str], verbs: Iterable[str]) -> str:
    """The hint for a line whose first word is no verb: the verb, or the line that was meant."""
    first = words[0]
    name = first.lstrip("-").lower()
    line: list[str] = []
    if is_launcher(first):
        line = ["tune", *words]
    elif first.startswith(("./", "/")):
        line = ["tune", "mpirun", "-n", "8", *words]
    elif path_exists(Path(first)):
        line = ["report", *words]
    elif is_machine(first):
        line = ["doctor", "-t", *words]
    elif is_pattern(first):
        line = ["map", *words]
    if line:
        return f"did you mean: toposeat {shell_line(line)}"
    verb = _VERB_OF.get(name) or nearest(name, verbs, 0.7)
    return f"did you mean {verb!r}?" if verb else ""


def place_meant(word: str, options: Iterable[str], *, takes_line: bool, needs_line: bool) -> str:
    """The hint for a word that a verb does not take where it stands; "" where it is unknown."""
    if word.endswith(".place") and needs_line:
        return f"a placement is given as: -p {word}"
    if "-t" in options and (is_machine(word) or path_exists(Path(word))):
        return f"a machine is given as: -t {word}"
    if takes_line and is_launcher(word):
        return f"put -- in front of the command to run: -- {word} ..."
    if needs_line and word in ("-n", "-np"):
        return "name the launcher: mpirun -n 4 ./app"
    near = nearest(word.partition("=")[0], options, 0.7) if word.startswith("-") else ""
    return f"did you mean {near!r}?" if near else ""


def swapped(words: Sequence[str]) -> str:
    """The hint for a machine where a pattern belongs, by where the pattern is, if there is one."""
    verb, first, *rest = [*words, "", ""]
    if verb not in _TRAFFIC_VERBS or not is_machine(first) or is_pattern(first):
        return ""
    line = [verb, "ring:8", "-t", first]
    for at, word in enumerate(rest[:-1]):
        if word in ("-t", "--topology") and is_pattern(rest[at + 1]):
            line = [verb, rest[at + 1], *rest[: at + 1], first, *rest[at + 2 : -2]]
        elif at == 0 and is_pattern(word):
            line = [verb, word, "-t", first, *rest[1:-2]]
    return f"{first} is a machine: toposeat {shell_line(line)}"


def is_machine(word: str) -> bool:
    """Whether a word is the name of a machine."""
    from toposeat import topology  # noqa: PLC0415

    with suppress(ToposeatError):
        return topology.machine_path(word) is not None
    return True  # two of this name


def is_pattern(word: str) -> bool:
    """Whether a word is a pattern that can be read."""
    from toposeat import profile  # noqa: PLC0415

    with suppress(ToposeatError):
        return bool(profile.pattern_traffic(word).ranks)
    return False


def is_launcher(word: str) -> bool:
    """Whether a word is the name of a launcher, or the path of one."""
    from toposeat.launch import launcher_named  # noqa: PLC0415

    return bool(launcher_named(Path(word).name, nearly=False))
