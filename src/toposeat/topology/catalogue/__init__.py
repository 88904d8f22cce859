"""Known machines, one TOML file each: ours in this package, a user's own in the XDG folder."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from typing import Any

from toposeat.errors import UsageError
from toposeat.model.files import path_exists
from toposeat.model.topology import Topology
from toposeat.model.trust import user_folder

_FOLDER = Path(__file__).with_name("machines")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}", re.ASCII)
_MOST_LIKE = 8  # longest chain of files that build on each other


def built_in_machines() -> dict[str, Path]:
    """The files of the machines that toposeat brings, by name."""
    return {path.stem: path for path in sorted(_FOLDER.glob("*.toml"), key=lambda p: p.stem)}


def catalogue_names() -> tuple[str, ...]:
    """Names of the machines that toposeat brings."""
    return tuple(built_in_machines())


def own_machines() -> dict[str, Path]:
    """The user's own machine files by name: `$XDG_CONFIG_HOME/toposeat/machines/NAME.toml`."""
    folder = _own_folder()
    try:
        found = sorted(folder.glob("*.toml")) if folder else []
    except OSError:
        return {}
    return {path.stem: path for path in found if _NAME.fullmatch(path.stem)}


def machine_path(name: str) -> Path | None:
    """The file of a machine, from the catalogue or the user's folder; None if neither has it."""
    name = name.strip()
    if not _NAME.fullmatch(name):
        return None
    ours = _FOLDER / f"{name.lower()}.toml"
    folder = _own_folder()
    own = next(
        (
            path
            for each in (name, name.lower())
            if folder and path_exists(path := folder / f"{each}.toml")
        ),
        None,
    )
    if not ours.is_file():
        return own
    if own:
        raise UsageError(
            f"two machines are called {name.lower()}: the catalogue's and {own}",
            hint="rename that file, or give its path instead of the name",
        )
    return ours


def read_machine_file(path: Path) -> Topology:
    """The machine that a TOML file describes; it is named after the file."""
    return _built_in(path) if path.parent == _FOLDER else _read(path, "machine file")


def hint_for_name(name: str) -> str:
    """The nearest names of machines, or all of them."""
    near = near_machines(name)
    known = (*catalogue_names(), *own_machines())
    listed = f"known are {', '.join(known)}; shown by: toposeat discover --list"
    return f"did you mean {' or '.join(near)}?" if near else listed


def near_machines(name: str) -> list[str]:
    """Up to three names of machines that may be meant by a word, the nearest first.

    A product (`h100`, `8xA100`, `frontier`) means the machines that have it in their name or their
    description; where none has, names that are spelt alike count.
    """
    from difflib import SequenceMatcher  # noqa: PLC0415 - 1 ms: only errors need it

    text = name.strip().lower()[:100]
    words = [w for w in re.split(r"[^a-z0-9]+|(?<![a-z])\d+x(?=[a-z])|x\d+$", text) if len(w) > 2]
    squeezed = re.sub("[^a-z0-9]", "", text)
    scores: dict[str, tuple[int, float]] = {}
    for known, path in {**built_in_machines(), **own_machines()}.items():
        own, said = known.lower(), _description(path)
        scores[known] = (
            sum(_meets(word, own, said) for word in words),
            SequenceMatcher(None, squeezed, own.replace("-", "")).ratio(),
        )
    best = max((met for met, _ in scores.values()), default=0)
    fit = [known for known, (met, alike) in scores.items() if met == best > 0 or alike > 0.7]
    return sorted(fit, key=lambda known: scores[known], reverse=True)[:3]


def _meets(word: str, name: str, description: str) -> int:
    """How much a word says of a machine: a product more than a maker, its name more than a text."""
    has_digit = any(c.isdigit() for c in word)
    start = rf"\b{re.escape(word)}"
    if re.search(start, name):
        return 2 + has_digit
    proper = start if has_digit else rf"\b{re.escape(word.title())}\b"
    return 1 if re.search(proper, description, re.IGNORECASE if has_digit else 0) else 0


def _description(path: Path) -> str:
    """What a machine's file says first of it."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            found = re.search(r'(?ms)^description = ("{3}.*?"{3}|".*?")', file.read(1000))
    except OSError:
        return ""
    return found[1] if found else ""


def _own_folder() -> Path | None:
    own = user_folder(os.environ, "XDG_CONFIG_HOME", ".config")
    return None if own is None else Path(own, "machines")


@cache
def _built_in(path: Path) -> Topology:
    return _read(path, "catalogue")


def _read(path: Path, origin: str) -> Topology:
    from toposeat.topology.catalogue.assembly import build_machine  # noqa: PLC0415 - 30 ms

    # it costs 18 ms
    from toposeat.topology.catalogue.machine_file import decode, refusal  # noqa: PLC0415

    spec = decode(path, _tables(path, _MOST_LIKE))
    try:
        return build_machine(path.stem, origin, spec)
    except ValueError as error:
        raise refusal(path, str(error), getattr(error, "part", ())) from error


def _tables(path: Path, most: int) -> dict[str, Any]:
    """The tables of a file, completed by those of the machine that its `like` names."""
    from toposeat.topology.catalogue.machine_file import (  # noqa: PLC0415 - 18 ms
        merged_tables,
        refusal,
        tables_of,
    )

    tables = tables_of(path)
    like = tables.get("like")
    if not isinstance(like, str):
        return tables
    # a machine of the catalogue never builds on a user's
    base = _FOLDER / f"{like}.toml" if path.parent == _FOLDER else machine_path(like)
    if base is None:
        raise refusal(path, f"no machine {like[:80]!r}", ["like"], hint_for_name(like))
    if not most:
        raise refusal(path, "too many machines build on one another", ["like"])
    return merged_tables(tables, _tables(base, most - 1))
