"""Files that hold the outputs of several commands one after the other, as bug reports do.

    $ nvidia-smi topo -m
    ...
    $ nvidia-smi topo -p2p r
    ...
    $ nvidia-smi nvlink -s

Each output becomes a text of its own, in which the lines of the others are blank: so every reader
sees its own only, and the line numbers of its errors are those of the file. XML and JSON between
other lines are such outputs, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from toposeat.model.topology import Topology
from toposeat.topology.readers.file_text import FileText
from toposeat.topology.readers.tables import Line, clean_lines, without_marks
from toposeat.topology.registry import Registered
from toposeat.topology.told import FOUND, Ends, told_pairs

MAX_OUTPUTS = 32
MAX_LINES = 20_000  # a longer file is no terminal's text, but one output of a large machine

_MARKS = ("GPU 0:", "NVSMI LOG", "P2P=", "memcpy CE", "between two GPUs", "LINK TYPE TABLE")
_MATRIX = re.compile(r"GPU0[ \t|].*")
_TREE = "nodes/"  # of sysfs, as text, which may be long
_BEFORE, _BEHIND = 400, 1_000_000  # characters around the first mark
_MAX_TRIED = 100  # lines that may begin XML or JSON
_QUOTED = re.compile(  # in a letter, in the log of a build, by docker compose
    r"^(?:(?:> ?)+|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S* |[\w.-]+[-_]\d+ +\| )", re.ASCII
)
_XML = r"(?:\?xml|!DOCTYPE|system|topology|nvidia_smi_log)\b"
_DOCUMENT = re.compile(rf"\s*<{_XML}|[{{\[]\s*(?:\"|\{{|$)")
_ROOT = re.compile(r"\s*<(system|topology|nvidia_smi_log)\b")
_COMMAND = re.compile(
    r"\b(?:(?:nvidia|mx|rocm|amd|xpu)-smi|p2pBandwidthLatencyTest|nvbandwidth"
    r"|rocm[-_]bandwidth[-_]test|lscpu|cpuinfo)\b"
)
_LABEL = re.compile(r"(?:GPU|NIC|mlx)\d+\w*|cpu|numa|node", re.ASCII | re.IGNORECASE)
_ROW = re.compile(r"[ \t|>#*]*GPU\d+[ \t|]+[A-Z]", re.ASCII | re.IGNORECASE)


def _begins_matrix(text: str) -> bool:
    """Whether a line is the header of a matrix of words: GPU0, then labels only."""
    tokens = without_marks(text).replace("|", " ").split()
    labels = [t for t in tokens[:8] if t.lower() not in ("affinity", "gpu", "id")]
    return "GPU0" in tokens[:5] and all(_LABEL.fullmatch(label) for label in labels)


def outputs_of(file: FileText, formats: Sequence[Registered]) -> list[FileText]:
    """The outputs in a file, in its order; the file itself where it is one output.

    Headings of `formats` count, beside matrices of words.
    """
    if file.is_json or file.xml is not None or len(file.lines) > MAX_LINES:
        return [file]
    if any(map(_QUOTED.match, file.lines)):
        text = "\n".join(_QUOTED.sub("", line) for line in file.lines)
        file = FileText(text, file.path, above=file.above)
    texts = [line + "\n" for line in file.lines]
    texts[-1] = texts[-1][:-1]
    documents = _documents(texts, file, formats)
    blank = {place for start, end in documents for place in range(start, end)}
    rest = ["\n" if place in blank else text for place, text in enumerate(texts)]
    starts = _starts(clean_lines("".join(rest)), formats)
    outputs = [_part(texts, start, end, start + 1, file) for start, end in documents]
    if len(starts) > 1:
        begins = [start + 1 for start in starts]
        starts[0] = 0  # what stands before the first output belongs to it
        ends = [*starts[1:], len(texts)]
        outputs += [_part(rest, *each, file) for each in zip(starts, ends, begins, strict=True)]
    elif documents:
        others = _part(rest, 0, len(rest), 1, file)
        outputs += [others] if any(each.looks_like(others) for each in formats) else []
    if not 0 < len(outputs) <= MAX_OUTPUTS:
        return [file]
    return sorted(outputs, key=lambda each: each.begins)


def _part(texts: Sequence[str], start: int, end: int, begins: int, file: FileText) -> FileText:
    text = "\n" * start + "".join(texts[start:end])
    return FileText(text, file.path, begins=begins + file.above, above=file.above)


def without_log(file: FileText) -> FileText:
    """A long text from its first table on, or its beginning; other files as they are."""
    text = file.text
    if file.is_json or file.declares_xml or text.count("\n") <= MAX_LINES or _TREE in file.start:
        return file
    places = [at for mark in _MARKS if (at := text.find(mark)) >= 0]
    lines = (m.start() for m in _MATRIX.finditer(text) if _begins_matrix(m[0]))
    for matrix in islice(lines, 1):  # what is said of GPUs long before is of the log
        places = [matrix, *(at for at in places if matrix - at < _BEHIND // 2)]
    start = text.rfind("\n", 0, max(0, min(places, default=0) - _BEFORE)) + 1
    return FileText(text[start : start + _BEHIND], file.path, above=text.count("\n", 0, start))


def _documents(
    texts: Sequence[str], file: FileText, formats: Sequence[Registered]
) -> list[tuple[int, int]]:
    """First line, and the one behind the last, of each XML or JSON of a known format."""
    found: list[tuple[int, int]] = []
    begin = [place for place, text in enumerate(texts) if _DOCUMENT.match(text)]
    for start in begin[:_MAX_TRIED]:
        if found and start < found[-1][1]:
            continue
        end = _end_of_document(texts, start)
        if end is None:
            continue
        part = _part(texts, start, end, start + 1, file)
        if any(each.looks_like(part) for each in formats):
            found.append((start, end))
    return found


def _end_of_document(texts: Sequence[str], start: int) -> int | None:
    """Behind the line with which the XML or JSON of a line ends; None where it does not."""
    if texts[start].lstrip().startswith("<"):
        root = next((m for text in texts[start : start + 5] if (m := _ROOT.match(text))), None)
        ends = (n for n in range(start, len(texts)) if root and f"</{root[1]}>" in texts[n])
        return next((n + 1 for n in ends), None)
    text = "".join(texts[start:])
    try:
        _, length = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return None
    return start + text.count("\n", 0, length) + 1


def _starts(lines: Sequence[Line], formats: Sequence[Registered]) -> list[int]:
    """Positions at which outputs begin, the command above them included."""
    headings = [
        (each.name, re.compile(each.heading, re.I), each.once) for each in formats if each.heading
    ]
    starts: list[int] = []
    current = ""
    for position, line in enumerate(lines):
        if _begins_matrix(line.text):
            if _is_titled(lines, position) or not _has_rows(lines, position):
                continue
            kind = ""
        else:
            found = next(((k, once) for k, h, once in headings if h.search(line.text)), None)
            if found is None or found == (current, False):
                continue
            kind = found[0]
        starts.append(_with_command(lines, position))
        current = kind
    return starts


def _is_titled(lines: Sequence[Line], position: int) -> bool:
    """Whether a matrix is a table of rocm-smi, which has several, each below a title."""
    above = next((x.text for x in reversed(lines[:position]) if x.text.strip()), "")
    return re.search("between two gpus|bandwidth", above, re.I) is not None


def _has_rows(lines: Sequence[Line], position: int) -> bool:
    """Whether a row follows before the next header: a header alone is part of a damaged table."""
    for line in lines[position + 1 : position + 30]:
        if _begins_matrix(line.text):
            return False
        if _ROW.match(line.text):
            return True
    return False


def _with_command(lines: Sequence[Line], position: int) -> int:
    """Where an output begins if the command that printed it is above it."""
    here = position
    while here > 0 and not lines[here - 1].text.strip():
        here -= 1
    if here > 0 and _COMMAND.search(lines[here - 1].text):
        return here - 1
    return position


def contents(
    path: Path, outputs: Sequence[tuple[int, str]], pastes: Sequence[tuple[int, str, str]]
) -> Topology:
    """What a text holds, as the remark of a part without devices."""
    read = ", ".join(f"{origin} (line {line})" for line, origin in outputs)
    unread = "; ".join(f"{what} (line {line}): {instead}" for line, what, instead in pastes)
    words = f"{FOUND}{path.name}: {read}" + (f"; not used: {unread}" if unread else "")
    return Topology(origin="text", devices=(), report=(words,))


def without_repetitions(parts: Sequence[Topology]) -> list[Topology]:
    """The facts of one file's outputs, each kind once.

    Several capabilities of `topo -p2p` become one: peer access needs all that were asked for.
    Anything else that is there twice may be of two machines, so the first counts, and says so.
    """
    kept: dict[str, Topology] = {}
    for part in parts:
        first = kept.setdefault(part.origin, part)
        if first is part:
            continue
        mine, theirs = (_access(each) for each in (first, part))
        if mine and theirs and first.devices == part.devices:
            access = {
                pair: mine.get(pair, True) and theirs.get(pair, True) for pair in {**mine, **theirs}
            }
            kept[part.origin] = replace(
                first,
                pairs=told_pairs({"peer_access": access}),
                report=tuple({**dict.fromkeys(first.report + part.report)}),
            )
        else:
            note = f"the file holds {part.origin} more than once: the first is used"
            kept[part.origin] = replace(first, report=(*first.report, note))
    return list(kept.values())


def _access(part: Topology) -> dict[Ends, bool]:
    return {
        ends: pair.peer_access
        for ends, pair in part.pair_of_ends.items()
        if pair.peer_access is not None
    }
