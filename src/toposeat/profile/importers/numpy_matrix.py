"""Traffic matrices in NumPy files: `.npy` (one matrix), `.npz` (bytes and messages, or sparse).

Arrays are read in blocks of rows, so that memory follows the pairs that are used and not the shape
that a header declares; nothing is ever unpickled.
"""

from __future__ import annotations

import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from toposeat.errors import InputError
from toposeat.model.input_file import open_input
from toposeat.model.traffic import (
    MAX_TOTAL,
    Int64Array,
    PairTable,
    Traffic,
)
from toposeat.profile.importers.message_list import table_traffic

MAX_RANKS = 1 << 14  # of a dense matrix
MAX_PAIRS = 1 << 24
_MAX_HEADER = 4096
_BLOCK_BYTES = 1 << 22

_HINT = "save one with: numpy.save(F, bytes_sent), row = sender"
_NPZ_HINT = (
    "save one with: numpy.savez(F, bytes=..., messages=...), or scipy.sparse.save_npz(F, ...)"
)
_SPARSE = frozenset({"data", "shape", "format"})

_Pairs = tuple[Int64Array, Int64Array, Int64Array]  # source, target, value
_T = TypeVar("_T")


def read_npy_matrix(path: str | Path) -> Traffic:
    """Read a square matrix of bytes from a `.npy` file, row = sender.

    Raises:
        InputError: damaged, truncated, no square matrix of whole numbers, or too large.
    """

    def read() -> tuple[int, _Pairs]:
        with open_input(path) as file:
            return _square(file, path, "")

    ranks, pairs = _guarded(path, read)
    return _traffic(path, ranks, pairs, None)


def read_npz_matrix(path: str | Path) -> Traffic:
    """Read a `.npz` file: `bytes` and, if there is one, `messages`; or SciPy's sparse matrix.

    A file with a single array is taken as the bytes, whatever its name.

    Raises:
        InputError: see `read_npy_matrix`; also when none of its arrays can be the bytes.
    """
    return _guarded(path, lambda: _npz(path))


def _npz(path: str | Path) -> Traffic:
    with open_input(path) as whole, zipfile.ZipFile(whole) as archive:
        members = {
            name.removesuffix(".npy"): name for name in archive.namelist() if name.endswith(".npy")
        }
        if set(members) >= _SPARSE:
            ranks, pairs = _sparse(archive, members, path)
            return _traffic(path, ranks, pairs, None)
        first = next(iter(members)) if len(members) == 1 else "bytes"
        if first not in members:
            raise InputError(
                f"no array is named bytes: {_names(members)}", path=path, hint=_NPZ_HINT
            )
        with archive.open(members[first]) as file:
            ranks, pairs = _square(file, path, first)
        if "messages" not in members or first == "messages":
            return _traffic(path, ranks, pairs, None)
        with archive.open(members["messages"]) as file:
            other, counts = _square(file, path, "messages")
        if other != ranks:
            raise InputError(
                f"bytes is of {ranks} ranks, messages of {other}", path=path, hint=_NPZ_HINT
            )
        return _traffic(path, ranks, pairs, counts)


def _names(members: Mapping[str, str]) -> str:
    return ", ".join(repr(name[:40]) for name in sorted(members)[:8]) or "there is none at all"


def _guarded(path: str | Path, read: Callable[[], _T]) -> _T:
    try:
        return read()
    except OSError as error:
        raise InputError(
            f"cannot read: {error.strerror or error}", path=path, hint="check the file"
        ) from error
    except (
        ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError,
        RuntimeError, OverflowError, SyntaxError, TypeError, MemoryError, RecursionError,
        tokenize.TokenError,
    ) as error:  # fmt: skip
        what = str(error).partition("\n")[0][:120]
        raise InputError(f"a damaged NumPy file: {what}", path=path, hint=_HINT) from error


def _header(file: IO[bytes], path: str | Path, name: str) -> tuple[tuple[int, ...], bool, Any]:
    """Shape, Fortran order and type of an array, with the file at its first byte."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        read = np.lib.format.read_array_header_1_0
    elif version == (2, 0):
        read = np.lib.format.read_array_header_2_0
    else:
        raise InputError(f"NumPy format {version[0]}.{version[1]}", path=path, hint=_HINT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "created on Python 2": nothing to the user
        shape, fortran, dtype = read(file, max_header_size=_MAX_HEADER)
    if dtype.hasobject:
        raise InputError(
            f"{name or 'the array'} holds Python objects, which are never loaded",
            path=path,
            hint=_HINT,
        )
    return shape, fortran, dtype


def _square(file: IO[bytes], path: str | Path, name: str) -> tuple[int, _Pairs]:
    shape, fortran, dtype = _header(file, path, name)
    what = name or "the array"
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] < 1:
        raise InputError(
            f"{what} has shape {shape}, expected a square matrix", path=path, hint=_HINT
        )
    if dtype.kind not in "iufb":
        raise InputError(f"{what} holds {dtype}, expected numbers", path=path, hint=_HINT)
    ranks = int(shape[0])
    if ranks > MAX_RANKS:
        raise InputError(
            f"{what} is dense and of {ranks} ranks, at most {MAX_RANKS} are read",
            path=path,
            hint="save a matrix of so many ranks with scipy.sparse.save_npz",
        )
    parts: list[_Pairs] = []
    found = 0
    for first, block in _blocks(file, ranks, dtype):
        rows, columns = np.nonzero(block)
        found += rows.size
        if found > MAX_PAIRS:
            raise InputError(
                f"more than {MAX_PAIRS} pairs of ranks are used", path=path, hint=_HINT
            )
        values = _whole(block[rows, columns], path, what)
        ends = (rows.astype(np.int64) + first, columns.astype(np.int64))
        parts.append((*(ends[::-1] if fortran else ends), values))
    return ranks, _joined(parts)


def _blocks(file: IO[bytes], ranks: int, dtype: Any) -> Iterator[tuple[int, NDArray[Any]]]:
    """Rows of the file (columns of the matrix in Fortran order), some at a time."""
    row_bytes = ranks * dtype.itemsize
    step = max(1, _BLOCK_BYTES // row_bytes)
    for first in range(0, ranks, step):
        count = min(step, ranks - first)
        data = file.read(count * row_bytes)
        if len(data) < count * row_bytes:
            raise EOFError(f"it ends in row {first + len(data) // row_bytes} of {ranks}")
        yield first, np.frombuffer(data, dtype).reshape(count, ranks)


def _joined(parts: list[_Pairs]) -> _Pairs:
    if not parts:
        return (np.zeros(0, np.int64),) * 3
    source, target, value = (np.concatenate(column) for column in zip(*parts, strict=True))
    return source, target, value


def _whole(values: NDArray[Any], path: str | Path, what: str) -> Int64Array:
    """Values as int64, refused if negative, fractional, not finite or too large together."""
    if values.size == 0:
        return np.zeros(0, np.int64)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InputError(f"{what} holds values that are not finite", path=path, hint=_HINT)
    if values.dtype.kind in "if" and values.min() < 0:
        raise InputError(f"{what} holds negative values", path=path, hint=_HINT)
    if float(values.sum(dtype=np.float64)) >= MAX_TOTAL:
        raise InputError(
            f"{what} is more than can be counted", path=path, hint="scale the matrix down"
        )
    if values.dtype.kind == "f" and (values != np.floor(values)).any():
        raise InputError(
            f"{what} holds fractions, expected whole numbers",
            path=path,
            hint="round it first: numpy.rint(matrix)",
        )
    return values.astype(np.int64)


def _sparse(
    archive: zipfile.ZipFile, members: Mapping[str, str], path: str | Path
) -> tuple[int, _Pairs]:
    """A matrix as `scipy.sparse.save_npz` writes it: CSR, CSC or COO."""

    def vector(name: str, limit: int) -> NDArray[Any]:
        with archive.open(members[name]) as file:
            shape, _, dtype = _header(file, path, name)
            length = int(np.prod(shape, dtype=np.float64))
            if (
                len(shape) > 1
                or length > limit
                or dtype.kind not in "iufbSU"
                or dtype.itemsize > 64
            ):
                raise InputError(f"{name} has shape {shape} of {dtype}", path=path, hint=_NPZ_HINT)
            data = file.read(length * dtype.itemsize)
            if len(data) < length * dtype.itemsize:
                raise EOFError(f"{name} is cut short")
            return np.frombuffer(data, dtype)

    kind = vector("format", 1)[0]
    form = kind.decode("ascii", "replace") if isinstance(kind, bytes) else str(kind)
    shape = _whole(vector("shape", 2), path, "shape")
    if len(shape) != 2 or shape[0] != shape[1] or not 1 <= shape[0] < 2**31:
        raise InputError(f"the sparse matrix has shape {shape.tolist()}", path=path, hint=_NPZ_HINT)
    ranks = int(shape[0])
    data = _whole(vector("data", MAX_PAIRS), path, "data")
    if form == "coo":
        source, target = (_whole(vector(n, MAX_PAIRS), path, n) for n in ("row", "col"))
    elif form in ("csr", "csc"):
        starts = _whole(vector("indptr", ranks + 1), path, "indptr")
        if len(starts) != ranks + 1 or (np.diff(starts) < 0).any() or starts[-1] != len(data):
            raise InputError("indptr does not fit", path=path, hint=_NPZ_HINT)
        target = _whole(vector("indices", MAX_PAIRS), path, "indices")
        source = np.repeat(np.arange(ranks, dtype=np.int64), np.diff(starts))
        if form == "csc":
            source, target = target, source
    else:
        raise InputError(
            f"a sparse matrix of form {form[:20]!r}", path=path, hint="convert it: .tocsr()"
        )
    if not len(source) == len(target) == len(data):
        raise InputError("indices and data differ in length", path=path, hint=_NPZ_HINT)
    if len(data) and max(source.max(), target.max()) >= ranks:
        raise InputError(f"an index is beyond rank {ranks - 1}", path=path, hint=_NPZ_HINT)
    return ranks, (source, target, data)


def _traffic(path: str | Path, ranks: int, pairs: _Pairs, counts: _Pairs | None) -> Traffic:
    source, target, value = pairs
    if counts is None:
        table = PairTable.from_pairs(source, target, value, (value > 0).astype(np.int64))
        return table_traffic("NumPy matrix", path, ranks, table)
    table = PairTable.from_pairs(
        np.concatenate([source, counts[0]]),
        np.concatenate([target, counts[1]]),
        np.concatenate([value, np.zeros_like(counts[2])]),
        np.concatenate([np.zeros_like(value), counts[2]]),
    )
    return table_traffic("NumPy matrix", path, ranks, table, one_per=None)
