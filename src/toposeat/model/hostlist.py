"""Lists of host names as schedulers write them: `n[001-016,020],login1`, and back.

Slurm's brackets (several in a name, zero padding, prefixes that change from part to part), PBS's
`n1/0*8+n2/0*8`, LSF's `n1 8 n2 8`. Nothing expands to more than `MAX_HOSTS` names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import product

from toposeat.errors import InputError
from toposeat.model.few import cut
from toposeat.model.network import MAX_HOSTS

HOSTLIST_HINT = "write hosts as n[001-016,020],login1"
_PART = re.compile(r"(?:[^\s,\[\]]|\[[^\[\]]*\])+")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:\-]*", re.ASCII)
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", re.ASCII)
_PBS = re.compile(r"([^/+]+)(?:/[0-9*+,\-]*)?", re.ASCII)
_LAST_NUMBER = re.compile(r"(.*?)([0-9]+)([^0-9]*)", re.ASCII | re.DOTALL)
_COUNT = re.compile(r"([0-9]{1,9})(?:\(x([0-9]{1,9})\))?", re.ASCII)
_MAX_NAME = 255


def expand_hostlist(text: str, *, limit: int = MAX_HOSTS) -> tuple[str, ...]:
    """The names that a hostlist stands for, in its order.

    Args:
        text: Slurm's, PBS's or LSF's form; blanks and line ends separate as commas do.
        limit: most names that it may stand for.

    Raises:
        InputError: brackets that do not match, ranges that run backwards, impossible names, or
            more than `limit` names. The caller adds file and line.
    """
    if "".join(_PART.sub("", text).split()).strip(","):
        raise _error("brackets that do not match", text)
    names: list[str] = []
    for part in _PART.findall(text):
        names.extend(_expand_part(part, limit - len(names)))
    return tuple(names)


def expand_scheduler_list(text: str) -> tuple[str, ...]:
    """The distinct hosts of a job as schedulers list them: Slurm, PBS `exec_host`, LSF pairs."""
    words = text.split()
    pairs = len(words) > 1 and len(words) % 2 == 0 and all(word.isdigit() for word in words[1::2])
    if pairs:  # LSB_MCPU_HOSTS: host and number of slots
        words = words[::2]
    found: list[str] = []
    for word in words:
        if "[" not in word and ("+" in word or "/" in word):  # PBS: host/first*count+host/...
            found.extend(_host_of_pbs(part, word) for part in word.split("+"))
        else:
            found.extend(expand_hostlist(word))
    return tuple(dict.fromkeys(found))


def _host_of_pbs(part: str, word: str) -> str:
    match = _PBS.fullmatch(part)
    if match is None or not _NAME.fullmatch(match.group(1)) or len(match.group(1)) > _MAX_NAME:
        raise _error(f"{part[:30]!r} is no host/slots", word)
    return match.group(1)


def short_name(host: str) -> str:
    """The name by which a host is known: domains and upper case do not tell hosts apart."""
    return host.split(".", 1)[0].lower()


def expand_counts(text: str) -> tuple[int, ...]:
    """The numbers that Slurm writes as `8,6,1(x2)`."""
    counts: list[int] = []
    for part in text.split(","):
        match = _COUNT.fullmatch(part)
        times = int(match[2] or 1) if match else 0
        if match is None or len(counts) + times > MAX_HOSTS:
            raise InputError(f"{text[:60]!r} is no list of counts", hint="as in 8,6,1(x2)")
        counts += [int(match[1])] * times
    return tuple(counts)


def compress_hostlist(names: Iterable[str]) -> str:
    """The shortest bracket form that names the same hosts in the same order.

    Numbers that follow each other become ranges; padding is kept, so `n09,n10` is `n[09-10]`.
    """
    parts: list[str] = []
    group: list[tuple[str, str, str]] = []  # prefix, digits, suffix
    for name in names:
        match = _LAST_NUMBER.fullmatch(name)
        if match is None or len(match.group(2)) > 18:
            parts += [*_flush(group), name]
            group = []
            continue
        prefix, digits, suffix = match.groups()
        if group and (prefix, suffix) != (group[0][0], group[0][2]):
            parts += _flush(group)
            group = []
        group.append((prefix, digits, suffix))
    return ",".join([*parts, *_flush(group)])


def _flush(group: Sequence[tuple[str, str, str]]) -> list[str]:
    if not group:
        return []
    prefix, first, suffix = group[0]
    if len(group) == 1:
        return [f"{prefix}{first}{suffix}"]
    runs: list[list[str]] = []
    for _, digits, _ in group:
        if runs and _follows(runs[-1][-1], digits):
            runs[-1].append(digits)
        else:
            runs.append([digits])
    ranges = [run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return [f"{prefix}[{','.join(ranges)}]{suffix}"]


def _follows(before: str, after: str) -> bool:
    """Whether a range would go from one to the other: 09 to 10, 9 to 10, but not 09 to 9."""
    if int(after) != int(before) + 1:
        return False
    return str(int(after)).zfill(len(before)) == after


def _expand_part(part: str, limit: int) -> list[str]:
    pieces: list[list[str]] = []
    count = 1
    for position, piece in enumerate(re.split(r"\[([^\]]*)\]", part)):
        values = _numbers(piece, part, limit) if position % 2 else [piece]
        count *= len(values)
        if count > limit:
            raise _error("more hosts than a network may have", part)
        pieces.append(values)
    names = ["".join(choice) for choice in product(*pieces)]
    for name in names[:1]:
        if not _NAME.fullmatch(name) or len(names[-1]) > _MAX_NAME:
            raise _error("no name of a host", part)
    return names


def _numbers(text: str, part: str, limit: int) -> list[str]:
    values: list[str] = []
    for item in text.split(","):
        match = _RANGE.fullmatch(item.strip())
        first, last = (match[1], match[2] or match[1]) if match else ("1", "0")
        if int(last) < int(first):
            raise _error(f"{item.strip()[:30]!r} is no number and no rising range", part)
        if int(last) - int(first) >= limit - len(values):
            raise _error("more hosts than a network may have", part)
        width = len(first) if first.startswith("0") else 0
        values += [str(number).zfill(width) for number in range(int(first), int(last) + 1)]
    return values


def _error(cause: str, text: str) -> InputError:
    return InputError(f"hostlist {cut(text, 60)!r}: {cause}", hint=HOSTLIST_HINT)
