"""Other tools' files: how one is recognised by its content, and which importer reads it.

The importers are named as data: only the one that is needed is imported.
"""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from toposeat.errors import InputError
from toposeat.model.files import path_exists, read_input
from toposeat.model.job_folder import RECORD_SUFFIX, TORCH_SUFFIX
from toposeat.model.traffic import Traffic
from toposeat.model.traffic_file import is_profile, load_traffic
from toposeat.profile.importers.matrices import looks_like_pair_list
from toposeat.profile.importers.streams import beginning
from toposeat.profile.pattern.recognise import with_pattern

ACCEPTED = (
    "a profile, a matrix (CSV, NumPy), a pair list (CSV), Open MPI monitoring files,"
    " NCCL debug logs, PyTorch profiler traces, a folder of these, or a pattern: stencil2d:4x4"
)

# Importers as `MODULE:FUNCTION`; those of one file take its path, those of a folder all its files.
_CSV = "matrices:read_csv_matrix"
_MONITORING = "open_mpi_monitoring:read_monitoring"
_NCCL_LOG = "nccl_log:read_nccl_logs"
_PYTORCH = "pytorch_trace:read_pytorch_traces"
_OF_FOLDERS = (_NCCL_LOG, _PYTORCH)
_NO_TRAFFIC = ""

_RECORD = "record the job with toposeat profile, or give NCCL's log or PyTorch's traces"
# What is known and not read: what it is, and what to give instead.
_NOT_READ = {
    _NO_TRAFFIC: ("a file that is no traffic", f"expected {ACCEPTED}"),
    "archive": (
        "an archive (.npz), which is not read",
        "save one array: numpy.save('F.npy', bytes_sent), or lines source,target,bytes,messages",
    ),
    "blanks": (
        "a matrix with blanks, as TreeMatch's, which is not read",
        "put commas between its whole bytes: tr -s ' ' , < F > F.csv",
    ),
    "inspector": ("a file of NCCL's Inspector, which is not read", _RECORD),
    "flight": ("a dump of PyTorch's flight recorder, which is not read", _RECORD),
}
# What is told apart by words inside it: tools' files, of which a folder may hold many.
_FORMER = {
    "inspector": re.compile(rb'"(coll_perf|p2p_perf|inspector_output_format_version)"'),
    "flight": re.compile(rb'"(profiling_name|comm_lib_version)"|\A\x80.*pg_config', re.DOTALL),
}

_MONITORING_START = "# POINT TO POINT"
_LOG_MARK = b"NCCL INFO"
_PYTORCH_MARKS = (b'"traceEvents"', b'"distributedInfo"')

MAX_FILES = 1 << 18
_HEAD = 1 << 16
_LOG_HEAD = 1 << 22  # an application may print a lot before NCCL's first line
_JSON = re.compile(r"\s*(\{\s*[\"}]|\[\s*\{)")  # a log may begin with a brace or bracket as well
_TOPOSEAT_JSON = re.compile(rb'"schema"\s*:\s*"toposeat/([a-z-]+)/')

_BLANKS = re.compile(
    r"(?:[ \t]*(?:#.*)?\r?\n)*[ \t]*\d[\d.e+-]*(?:[ \t]+\d[\d.e+-]*)+[ \t]*\r?$", re.M | re.I
)
_CSV_LINE = re.compile(rb"^[^\n,]{0,80},\s*\d[\d.eE+]*\s*(?:,|$)", re.MULTILINE)


def read_path(path: Path) -> Traffic:
    """The traffic of a file of any known kind, or of the job whose files a folder holds."""
    if path.is_dir():
        return with_pattern(_read_folder(path))
    if path.is_fifo():
        return _read_pipe(path)
    if is_profile(path):
        traffic = load_traffic(path)
        if not any(event.algorithm for event in traffic.collectives):
            return traffic
        from toposeat.profile.records.collectives import with_rounds  # noqa: PLC0415 - few need it

        return with_rounds(traffic)
    return with_pattern(_read(_importer_of(path), [path]))


def _read_pipe(path: Path) -> Traffic:
    """What a pipe gives, as a file: kinds are told apart by a look, and a pipe has only one."""
    data = read_input(path)
    with tempfile.NamedTemporaryFile(prefix="toposeat-pipe-") as copy:
        copy.write(data)
        copy.flush()
        try:
            traffic = read_path(Path(copy.name))
        except InputError as error:
            cause = error.message.replace(copy.name, str(path))
            raise InputError(cause, hint=error.hint) from error
        origin = traffic.origin.replace(Path(copy.name).name, path.name)
    return replace(traffic, origin=origin)


def holds_traffic(path: str | Path) -> bool:
    """Whether a file is one of another tool's that `read_traffic` knows, or a matrix; or a folder.

    Only its beginning is looked at. A CSV file is one whose first lines have numbers and commas.
    """
    file = Path(path)
    if not path_exists(file) or not (file.is_file() or file.is_dir()):
        return False
    if file.is_dir() or is_profile(file):
        return True
    importer = _importer_of(file)
    if importer == _CSV:
        return _CSV_LINE.search(beginning(file, _HEAD)) is not None
    return importer != _NO_TRAFFIC


def _read(importer: str, files: list[Path]) -> Traffic:
    if importer in _NOT_READ:
        what, hint = _NOT_READ[importer]
        raise InputError(what, path=files[0], hint=hint)
    module, _, function = importer.partition(":")
    read = getattr(import_module(f"toposeat.profile.importers.{module}"), function)
    traffic: Traffic = read(files if importer in _OF_FOLDERS else files[0])
    return traffic


def _importer_of(path: Path) -> str:
    """What reads the file, judged by its beginning."""
    head = beginning(path, _HEAD)
    text = head.decode("utf-8-sig", "replace")
    former = _former(head)
    found = [
        (head.startswith(b"\x93NUMPY"), "matrices:read_npy_matrix"),
        (head.startswith(b"PK\x03\x04"), "archive"),
        (head.startswith(b"\x80") and former != _NO_TRAFFIC, former),
        (text.startswith(_MONITORING_START), _MONITORING),
        (_JSON.match(text) is not None, _importer_of_json(head)),
        (_LOG_MARK in head, _NCCL_LOG),
        (looks_like_pair_list(text), "matrices:read_pair_list"),
        (_BLANKS.match(text) is not None, "blanks"),
        (text.startswith("# toposeat/") or path.suffix in {".place", ".html"}, _NO_TRAFFIC),
    ]
    for is_it, importer in found:
        if is_it:
            return importer
    return _NCCL_LOG if _LOG_MARK in beginning(path, _LOG_HEAD) else _CSV


def _former(head: bytes) -> str:
    return next((what for what, mark in _FORMER.items() if mark.search(head)), _NO_TRAFFIC)


def _importer_of_json(head: bytes) -> str:
    if _TOPOSEAT_JSON.search(head):
        return _NO_TRAFFIC
    if former := _former(head):
        return former
    if any(mark in head for mark in _PYTORCH_MARKS) or head.lstrip()[:1] == b"[":
        return _PYTORCH
    return _NO_TRAFFIC


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
    if any(path.suffix in (RECORD_SUFFIX, TORCH_SUFFIX) for path in names):
        from toposeat.profile.records.merge import read_folders  # noqa: PLC0415 - 60 ms

        return read_folders(folder)
    found: dict[str, list[Path]] = {}
    for path in names:
        head = beginning(path, _HEAD)
        if head.startswith(_MONITORING_START.encode()):
            return _read(_MONITORING, [path])
        if head and (importer := _importer_of(path)) in (*_OF_FOLDERS, *_FORMER):
            found.setdefault(importer, []).append(path)
    if not found:
        raise InputError(
            "a folder without files of a run", path=folder,
            hint="it may hold NCCL logs, PyTorch traces or .prof files",
        )  # fmt: skip
    if len(found) > 1:
        one, other = (files[0].name for files in list(found.values())[:2])
        raise InputError(
            f"files of different tools: {one} and {other}", path=folder,
            hint="put those of one tool into a folder of their own, or give one file",
        )  # fmt: skip
    return _read(*found.popitem())
