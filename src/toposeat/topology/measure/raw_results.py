"""The raw file, from which a measurement can go on: one line after each set of transfers.

Line 1 names the GPUs: `{"schema": "toposeat/measurement-raw/1", "devices": [bus ids]}`; each other
line is one `Transfers`. A last line without a newline is left by an interruption, and is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec

from toposeat.errors import InputError
from toposeat.model.files import read_text
from toposeat.model.route import CopyProtocol
from toposeat.topology.measure.results import PairResults, Transfers

SCHEMA = "toposeat/measurement-raw/1"
_HINT = "give another file, or remove this one to begin anew"
_Time = Annotated[float, msgspec.Meta(gt=0, le=3600)]


class _Head(msgspec.Struct):
    schema: str = ""
    devices: list[str] = []


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    source: Annotated[int, msgspec.Meta(ge=0)]
    target: Annotated[int, msgspec.Meta(ge=0)]
    protocol: CopyProtocol
    bytes: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
    seconds: Annotated[tuple[_Time, ...], msgspec.Meta(min_length=1)]
    at_once: bool = False


@contextmanager
def raw_file(path: str | Path, pci: Sequence[str]) -> Iterator[PairResults]:
    """Results that already hold what a file has, and that add to it whatever is measured.

    Args:
        path: is created if it does not exist.
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
    return msgspec.json.encode(value) + b"\n"


def _read(text: str, path: Path, pci: Sequence[str], results: PairResults) -> None:
    for number, line in enumerate(text.splitlines(), 1):
        try:
            if number > 1:
                results.add(_transfers(line, len(pci)))
                continue
            head = msgspec.json.decode(line, type=_Head)
            if head.schema != SCHEMA:
                raise ValueError(f"schema {head.schema[:60]!r}, not {SCHEMA!r}")
            if head.devices != list(pci):
                raise ValueError(f"measured on other GPUs than these: {', '.join(pci)[:200]}")
        except (ValueError, RecursionError) as error:
            raise InputError(str(error)[:300], path=path, line=number, hint=_HINT) from error


def _transfers(line: str, count: int) -> Transfers:
    found = msgspec.json.decode(line, type=_Line)
    if found.source == found.target or max(found.source, found.target) >= count:
        raise ValueError(f"no transfer between {count} GPUs: {found.source} to {found.target}")
    fields = msgspec.structs.asdict(found)
    return Transfers(**{**fields, "protocol": found.protocol.value})
