import numpy as np
import pytest

from tests.report import samples
from tests.report.markup import Page
from toposeat.model.traffic import PairTable
from toposeat.report.svg.charts import heat_map
from toposeat.report.svg.element import text_width
from toposeat.report.view.traffic import LEVELS, HeatScale, block_matrix, heat_scale


def test_heat_map_shows_every_pair_where_it_is():
    table = samples.stencil((4,)).mapped_table()
    page = Page(heat_map(table, 4, label="x", order=[3, 1, 0, 2]))
    assert sorted(page.titles) == sorted(
        f"rank {a} -> {b}: 1.00 MiB" for a, b in zip(table.source, table.target, strict=True)
    )
    cells = {
        title: (float(attrs["x"] or 0), float(attrs["y"] or 0))
        for title, attrs in zip(
            page.titles,
            [a for _, a in page.tags if (a.get("class") or "").startswith("heat-7")],
            strict=True,
        )
    }
    assert cells["rank 3 -> 2: 1.00 MiB"] == (3 * 26 + 0.5, 0 * 26 + 0.5)
    assert cells["rank 0 -> 1: 1.00 MiB"] == (1 * 26 + 0.5, 2 * 26 + 0.5)


@pytest.mark.parametrize("ranks", [1, 2, 41, 64, 1000])
def test_heat_map_of_any_size_is_small(ranks):
    near = np.arange(ranks - 1)
    table = PairTable.from_pairs(near, near + 1, np.full(ranks - 1, 4096), np.ones(ranks - 1))
    text = heat_map(table, ranks, label="x")
    page = Page(text)
    size = float(page.tags[0][1]["width"] or 0)
    assert 0 < size <= 380
    assert len(text) < 60_000


@pytest.mark.parametrize("ranks", [9, 100, 512, 4096, 20_000])
def test_numbers_along_the_axes_do_not_touch(ranks):
    table = PairTable.from_pairs(np.array([0]), np.array([1]), np.array([1]), np.array([1]))
    page = Page(heat_map(table, ranks, label="x"))
    along_the_top = [
        float(attrs["x"] or 0) for _, attrs in page.tags if attrs.get("class") == "axis mid"
    ]
    assert len(along_the_top) >= 2
    assert np.diff(along_the_top).min() >= text_width(str(ranks - 1), 10)


def test_blocks_keep_the_sum():
    table = samples.stencil((8, 8, 4)).mapped_table()
    matrix, block = block_matrix(table, 256, 64)
    assert (matrix.shape, block) == ((64, 64), 4)
    assert matrix.sum() == table.bytes.sum()


def test_heat_scale():
    assert heat_scale(np.zeros((2, 2), dtype=np.int64)) == HeatScale(0.0, 0.0)
    assert HeatScale(0.0, 0.0).level(0) == 0
    scale = heat_scale(np.array([[1, 10**9]]))
    assert scale.level(10**9) == LEVELS - 1
    assert scale.level(1) == 1
    assert scale.level(0) == 0
    flat = heat_scale(np.array([[7, 7]]))
    assert flat.level(7) == LEVELS - 1
