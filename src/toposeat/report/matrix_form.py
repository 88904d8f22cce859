"""A traffic matrix as other tools read it: CSV, TreeMatch, NumPy."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np

from toposeat.errors import UsageError
from toposeat.model.traffic import Int64Array, Traffic

MAX_RANKS = 4096  # of a dense matrix; 16.8 million cells

FORMS = ("csv", "treematch", "npy")


def matrix_file(traffic: Traffic, form: str) -> bytes:
    """The bytes that a mapper serves (`Traffic.mapped_table`), row = sender, as one dense matrix.

    TreeMatch takes a weight without a direction: there, each cell is the sum of both directions.

    Args:
        traffic: what to write.
        form: one of `FORMS`.

    Raises:
        UsageError: too many ranks for a dense matrix.
    """
    if traffic.ranks > MAX_RANKS:
        raise UsageError(
            f"a dense matrix of {traffic.ranks} ranks, at most {MAX_RANKS} are written",
            hint="use --format json, which is sparse above 256 ranks, or query the profile",
        )
    matrix = traffic.mapped_table().dense_bytes(traffic.ranks)
    if form == "npy":
        out = io.BytesIO()
        np.save(out, matrix, allow_pickle=False)
        return out.getvalue()
    if form == "treematch":
        return "".join(_lines(matrix + matrix.T, " ")).encode()
    return "".join(_lines(matrix, ",")).encode()


def _lines(matrix: Int64Array, separator: str) -> Iterator[str]:
    for row in matrix.tolist():
        yield separator.join(map(str, row)) + "\n"
