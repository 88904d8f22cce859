"""Hints in Python's words: below the library all are for the command line."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar

from toposeat.errors import ToposeatError

_Asked = ParamSpec("_Asked")
_Answer = TypeVar("_Answer")

_KEYWORDS = {
    "allow": "Constraints(allowed=...)",
    "budget": "budget_s",
    "devices": "Constraints(devices=...)",
    "exclude": "Constraints(exclude=...)",
    "hosts": "hosts=",
    "metric": "metric=",
    "min-gain": "min_gain=",
    "node": "node=",
    "objective": "objective=",
    "pin": "Constraints(pins=...)",
    "seed": "seed=",
    "slots": "Constraints(slots=...)",
    "solver": "solver=",
    "traffic": "traffic=",
    "topology": "topology=",
}
CALL = "CALL"  # in a hint: the function that was called, with its arguments
_SHELL = "in a shell: toposeat"
# One after the other; what has no form in Python is said to be a line for a shell.
_RULES: list[tuple[str, str | Callable[[re.Match[str]], str]]] = [
    (r"(?:toposeat )?map TRAFFIC -t (\S+) \[?--node SRC\]?(?: -o F)?(?:; or discover -t it)?",
     r"toposeat.read_topology(\1, node=SRC)"),
    (r"toposeat map TRAFFIC -t (\S+) --hosts job", r'toposeat.read_topology(\1, hosts="job")'),
    (r"toposeat (?:map|discover) -t FILE\b", "toposeat.read_topology(FILE)"),
    (r"(?:print|make) it again(?: with)?: toposeat map\b.*",
     "make it again: toposeat.map_traffic(topology, traffic)"),
    (r"toposeat map(?: TRAFFIC -t SRC -o F)?$", "toposeat.map_traffic(topology, traffic)"),
    (r"toposeat discover -t (\S+) -t (.+)", r"toposeat.read_topology([\1, \2])"),
    (r"(?:toposeat )?discover -t A -t B", "toposeat.read_topology([A, B])"),
    (r"; a host's and a guest's: discover .*", ""),
    (r"toposeat discover -t (\S+) -o FILE",
     r"toposeat.save_topology(toposeat.read_topology(\1), FILE)"),
    (r"toposeat discover -o FILE", 'toposeat.save_topology(toposeat.read_topology("this"), FILE)'),
    (r"toposeat discover --list", "toposeat.machine_names()"),
    (r"-t (\S+) --node SRC", r"toposeat.read_topology(\1, node=SRC)"),
    (r"one network with -t, and what tells its nodes with --node",
     "one network, and what tells its nodes as node="),
    (r"add -f to overwrite it", "overwrite=True overwrites it"),
    (r"--slots (\d+)", r"Constraints(slots=\1)"),
    (r"--(solver|metric) (\w+) or (\w+)", r'\1="\2" or "\3"'),
    (r"--(solver|metric|objective) (\w+)", r'\1="\2"'),
    (r"--(node|hosts) ([A-Za-z]+\[\S*\])", r'\1="\2"'),
    (r"--node SRC", "node=SRC"),
    (r"toposeat (?=(?:discover|doctor|map|measure|profile|report|run)\b)", f"{_SHELL} "),
    (rf"--({'|'.join(_KEYWORDS)})\b(?!-)", lambda match: _KEYWORDS[match[1]]),
]  # fmt: skip


def in_python(hint: str) -> str:
    """A hint as a program's author can follow it.

    Options become keywords, verbs functions of `toposeat`. A verb without such a function, and the
    commands of vendors, stay what they are: lines for a shell.
    """
    for pattern, replacement in _RULES:
        if _SHELL not in hint:
            hint = re.sub(pattern, replacement, hint)
    return hint


def public(function: Callable[_Asked, _Answer]) -> Callable[_Asked, _Answer]:
    """A function of the library: its errors have hints in Python's words, which tracebacks show."""

    @wraps(function)
    def called(*args: _Asked.args, **kwargs: _Asked.kwargs) -> _Answer:
        try:
            return function(*args, **kwargs)
        except ToposeatError as error:
            if error.hint and not getattr(error, "__notes__", None):  # once, where calls are nested
                positional = signature(function).parameters.values()
                names = ", ".join(
                    each.name for each in positional if each.kind != each.KEYWORD_ONLY
                )
                call = f"{function.__name__}({names})"
                error.hint = in_python(error.hint).replace(CALL, call)
                error.add_note(f"hint: {error.hint}")
            raise

    return called
