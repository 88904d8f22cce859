"""The file beside a measurement: one line after each set of transfers, so that it can go on later.

Line 1 says which GPUs: `{"schema": "toposeat/measurement-raw/1", "devices": [bus ids]}`; each other
line is one `Transfers`. A last line without its end is what an interruption left, and is dropped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from toposeat.errors import InputError
from toposeat.model.files import read_text
from toposeat.topology.measure.results import PROTOCOLS, PairResults, Transfers

SCHEMA = "toposeat/measurement-raw/1"
_MOST_SECONDS = 3600.0
_MOST_BYTES = 1 << 40
_HINT = "give another file, or remove this one to begin anew"


@contextmanager
def raw_file(path: str | Path, pci: Sequence[str]) -> Iterator[PairResults]:
    """Results that already hold what a file has, and that add to it whatever is measured.

    Args:
        path: is made if it does not exist.
        pci: bus ids of the GPUs to measure, in order.

    Raises:
        InputError: the file is damaged, of another version, or of other GPUs.
    """
    target = Path(path)
    results = PairResults(len(pci))
    whole = b""
    if target.exists() and target.stat().st_size:
        text = read_text(target)
        whole = text[: text.rfind("\n") + 1].encode()
        _read(whole.decode(), target, pci, results)
    try:
        with target.open("r+b" if target.exists() else "w+b") as file:
            file.truncate(len(whole))
            file.seek(0, 2)
            if not whole:
                file.write(_line({"schema": SCHEMA, "devices": list(pci)}))

            def append(each: Transfers) -> None:
                file.write(_line(each.__dict__))
                file.flush()

            results.record = append
            try:
                yield results
            finally:
                results.record = None
    except OSError as error:
        raise InputError(
            f"cannot write: {error.strerror or error}", path=target, hint="check permissions"
        ) from error


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _read(text: str, path: Path, pci: Sequence[str], results: PairResults) -> None:
    for number, line in enumerate(text.splitlines(), 1):
        try:
            found = json.loads(line)
            if not isinstance(found, dict):
                raise ValueError("not an object")
            if number == 1:
                _check_head(found, pci)
            else:
                results.add(_transfers(found, len(pci)))
        except (ValueError, RecursionError) as error:
            cause = "not JSON" if isinstance(error, json.JSONDecodeError) else str(error)
            raise InputError(cause, path=path, line=number, hint=_HINT) from error


def _check_head(head: dict[str, Any], pci: Sequence[str]) -> None:
    schema = str(head.get("schema"))
    if schema != SCHEMA:
        raise ValueError(f"schema {schema[:60]!r}, not {SCHEMA!r}")
    if head.get("devices") != list(pci):
        raise ValueError(f"measured on other GPUs than these: {', '.join(pci)[:200]}")


def _transfers(found: dict[str, Any], count: int) -> Transfers:
    at_once = found.pop("at_once", False)
    if set(found) != {"source", "target", "protocol", "bytes", "seconds"} or (
        type(at_once) is not bool
    ):
        raise ValueError("not the fields of a transfer")
    source, target = _whole(found["source"], count - 1), _whole(found["target"], count - 1)
    if source == target:
        raise ValueError("a transfer from a GPU to itself")
    if found["protocol"] not in PROTOCOLS:
        raise ValueError(f"no protocol {str(found['protocol'])[:40]!r}")
    seconds = found["seconds"]
    if not isinstance(seconds, list) or not seconds or not all(map(_is_time, seconds)):
        raise ValueError("seconds are not a list of positive times")
    size = _whole(found["bytes"], _MOST_BYTES)
    return Transfers(source, target, found["protocol"], size, tuple(map(float, seconds)), at_once)


def _whole(value: object, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{str(value)[:40]} is not a whole number of 0 to {most}")
    return value


def _is_time(value: object) -> bool:
    return type(value) in (int, float) and 0 < value <= _MOST_SECONDS  # type: ignore[operator]
