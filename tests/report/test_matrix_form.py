"""Exported matrices, read back by the importers."""

import numpy as np
import pytest

from toposeat.cli.main import main
from toposeat.errors import UsageError
from toposeat.profile import pattern_traffic, read_traffic
from toposeat.report import matrix_file

RING = pattern_traffic("ring:5,bytes=70")


@pytest.mark.parametrize("form", ["csv", "npy"])
def test_directed_forms_come_back_as_they_were(tmp_path, form):
    path = tmp_path / "matrix"
    path.write_bytes(matrix_file(RING, form))
    assert np.array_equal(
        read_traffic(path).mapped_table().dense_bytes(5), RING.mapped_table().dense_bytes(5)
    )


def test_sparse_jobs_are_not_written_dense():
    with pytest.raises(UsageError, match="16384 ranks"):
        matrix_file(pattern_traffic("ring:16384"), "csv")


def test_the_report_verb_converts(tmp_path):
    source, target, again = (tmp_path / name for name in ("a.csv", "b.npy", "c.csv"))
    source.write_text("0,7\n9,0\n")
    assert main(["report", str(source), "-o", str(target)]) == 0
    assert np.load(target).tolist() == [[0, 7], [9, 0]]
    assert main(["report", str(target), "-o", str(again)]) == 0
    assert again.read_bytes() == source.read_bytes()
