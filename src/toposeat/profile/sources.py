"""Traffic from whatever the user names: a profile, a matrix, another tool's files, a pattern."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from toposeat.errors import InputError, UsageError
from toposeat.model.files import path_exists
from toposeat.model.traffic import Traffic
from toposeat.model.traffic_file import is_profile, load_traffic
from toposeat.profile.importers import nccl_inspector, nccl_log, pytorch_trace
from toposeat.profile.importers.csv_matrix import read_csv_matrix
from toposeat.profile.importers.numpy_matrix import (
    NPY_MAGIC,
    NPZ_MAGIC,
    read_npy_matrix,
    read_npz_matrix,
)
from toposeat.profile.importers.open_mpi_monitoring import looks_like_monitoring, read_monitoring
from toposeat.profile.importers.pair_list import looks_like_pair_list, read_pair_list
from toposeat.profile.importers.treematch_matrix import looks_like_treematch, read_treematch_matrix
from toposeat.profile.input_files import beginning
from toposeat.profile.pattern.patterns import pattern_traffic
from toposeat.profile.recognise import with_pattern
from toposeat.profile.records.merge import read_records
from toposeat.profile.records.record import SUFFIX

ACCEPTED = (
    "a profile, a matrix (CSV, NumPy, TreeMatch), a pair list (CSV), Open MPI monitoring files,"
    " NCCL debug logs, NCCL Inspector files, PyTorch profiler traces, a folder of these, or a"
    " pattern: stencil2d:4x4"
)

MAX_FILES = 1 << 18
_HEAD = 1 << 16
_LOG_HEAD = 1 << 22  # an application may print a lot before NCCL's first line
_JSON = re.compile(r"\s*(\{\s*[\"}]|\[\s*\{)")  # a log may begin with a brace or bracket as well
_TOPOSEAT_JSON = re.compile(rb'"schema"\s*:\s*"toposeat/([a-z-]+)/')

_CSV_LINE = re.compile(rb"^[^\n,]{0,80},\s*\d[\d.eE+]*\s*(?:,|$)", re.MULTILINE)

_Reader = Callable[[list[Path]], Traffic]


def read_traffic(source: str | Path) -> Traffic:
    """Read the file or folder that `source` names, else take it as a pattern.

    What a file is follows from its content, not from its name. Of Open MPI's monitoring any one
    file of the run is enough; of the sources that have a file per process (NCCL logs, Inspector,
    PyTorch traces) a folder with them is read as one job.

    Raises:
        InputError: the file is damaged, or of a kind that is no traffic.
        UsageError: there is no such file, and it is no pattern either.
    """
    path = Path(source)
    if path_exists(path):
        if path.is_dir():
            return with_pattern(_read_folder(path))
        if is_profile(path):
            return load_traffic(path)
        return with_pattern(_reader_of(path)([path]))
    try:
        return pattern_traffic(str(source))
    except UsageError as error:
        if _looks_like_a_file(str(source)):
            raise InputError(
                "no such file", path=source, hint="check the name, or give a pattern: stencil2d:4x4"
            ) from error
        raise


def holds_traffic(path: str | Path) -> bool:
    """Whether a file is one of another tool's that `read_traffic` knows, or a matrix; or a folder.

    Only its beginning is looked at. A CSV file is one whose first lines have numbers and commas.
    """
    file = Path(path)
    if not path_exists(file) or not (file.is_file() or file.is_dir()):
        return False
    if file.is_dir() or is_profile(file):
        return True
    reader = _reader_of(file)
    if reader is _CSV:
        return _CSV_LINE.search(beginning(file, _HEAD)) is not None
    return reader is not _no_traffic


def _first(read: Callable[[Path], Traffic]) -> _Reader:
    """A reader of one file as a reader of a list of files."""
    return lambda files: read(files[0])


_CSV = _first(read_csv_matrix)


def _no_traffic(files: list[Path]) -> Traffic:
    raise InputError("a file that is no traffic", path=files[0], hint=f"expected {ACCEPTED}")


def _reader_of(path: Path) -> _Reader:
    """What reads the file, judged by its beginning."""
    head = beginning(path, _HEAD)
    text = head.decode("utf-8-sig", "replace")
    found: list[tuple[bool, _Reader]] = [
        (head.startswith(NPY_MAGIC), _first(read_npy_matrix)),
        (head.startswith(NPZ_MAGIC), _first(read_npz_matrix)),
        (looks_like_monitoring(text), _first(read_monitoring)),
        (_JSON.match(text) is not None, _json_reader(head)),
        (nccl_log.MARK in head, nccl_log.read_nccl_logs),
        (looks_like_pair_list(text), _first(read_pair_list)),
        (looks_like_treematch(text), _first(read_treematch_matrix)),
        (text.startswith("# toposeat/") or path.suffix in {".place", ".html"}, _no_traffic),
    ]
    for is_it, reader in found:
        if is_it:
            return reader
    if nccl_log.MARK in beginning(path, _LOG_HEAD):
        return nccl_log.read_nccl_logs
    return _CSV


def _json_reader(head: bytes) -> _Reader:
    if _TOPOSEAT_JSON.search(head):
        return _no_traffic
    if any(mark in head for mark in nccl_inspector.MARKS):
        return nccl_inspector.read_inspector
    if any(mark in head for mark in pytorch_trace.MARKS) or head.lstrip()[:1] == b"[":
        return pytorch_trace.read_pytorch_traces
    return _no_traffic


def _read_folder(folder: Path) -> Traffic:
    """The one job whose files the folder holds."""
    try:
        names = sorted(path for path in folder.iterdir() if path.is_file())
    except OSError as error:
        raise InputError(
            f"cannot read: {error.strerror}", path=folder, hint="check permissions"
        ) from error
    if len(names) > MAX_FILES:
        raise InputError(f"more than {MAX_FILES} files", path=folder, hint="is it one job's?")
    if any(path.suffix == SUFFIX for path in names):
        return read_records(folder)
    found: dict[_Reader, list[Path]] = {}
    for path in names:
        head = beginning(path, _HEAD)
        if looks_like_monitoring(head.decode("utf-8", "replace")):
            return read_monitoring(path)
        if head and (reader := _reader_of(path)) in _FOLDER_READERS:
            found.setdefault(reader, []).append(path)
    if not found:
        raise InputError(
            "a folder without files of a run", path=folder,
            hint="it may hold NCCL logs, NCCL Inspector files, PyTorch traces or .prof files",
        )  # fmt: skip
    if len(found) > 1:
        one, other = (files[0].name for files in list(found.values())[:2])
        raise InputError(
            f"files of different tools: {one} and {other}", path=folder,
            hint="put those of one tool into a folder of their own, or give one file",
        )  # fmt: skip
    reader, files = found.popitem()
    return reader(files)


_FOLDER_READERS: tuple[_Reader, ...] = (
    nccl_log.read_nccl_logs,
    nccl_inspector.read_inspector,
    pytorch_trace.read_pytorch_traces,
)


def _looks_like_a_file(text: str) -> bool:
    return ":" not in text or "/" in text
