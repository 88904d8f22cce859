"""A profile's charts and its standalone drawing."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np

from tests.report import samples
from tests.report.markup import Page
from tests.report.profile_samples import full_profile
from toposeat.model.traffic import HISTOGRAM_BUCKETS, PairTable, RankInfo, Traffic
from toposeat.report import traffic_svg
from toposeat.report.svg.charts import share_bar, size_histogram, time_bars
from toposeat.report.view.traffic import time_parts


def test_histogram_columns_follow_counts() -> None:
    device, host = [0] * HISTOGRAM_BUCKETS, [0] * HISTOGRAM_BUCKETS
    device[11], host[11], host[0] = 300, 100, 1
    series = [("fill-device", "device messages", device), ("fill-host", "host messages", host)]
    chart = size_histogram(series)
    assert chart is not None
    page = Page(chart)
    assert "1 KiB and up: 300 device messages, 100 host messages" in page.titles
    assert "empty: 0 device messages, 1 host messages" in page.titles
    assert size_histogram([("a", "b", [0] * HISTOGRAM_BUCKETS)]) is None


def test_time_bars() -> None:
    assert time_bars([]) is None
    assert time_bars([RankInfo(rank=0)]) is None
    chart = time_bars([RankInfo(rank=7, wall_s=2, mpi_s=1, finalized=False)])
    assert chart is not None
    assert "rank 7: 50 % of 2.00 s in MPI (did not reach MPI_Finalize)" in Page(chart).titles
    split = time_bars(full_profile().rank_info)
    assert split is not None
    assert "rank 0: 40 % of 10.0 s in MPI, 30 % on device buffers" in Page(split).titles


def test_many_ranks_are_drawn_in_groups() -> None:
    chart = time_bars([RankInfo(rank=r, wall_s=2, mpi_s=1) for r in range(16384)])
    assert chart is not None
    assert len(Page(chart).titles) == 256
    assert "ranks 64 to 127: 50 % of 2.00 s in MPI" in Page(chart).titles


def test_share_bar_fills_the_run() -> None:
    chart = share_bar(time_parts(full_profile()))
    assert chart is not None
    widths = [float(e.get("width", 0)) for e in ET.fromstring(chart).findall("./g/rect")]
    assert sum(widths) == 440
    assert "completion, device memory: 10 %, 4.00 s" in Page(chart).titles


def test_the_drawing_stands_alone() -> None:
    drawing = traffic_svg(full_profile())
    root = ET.fromstring(drawing.encode())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    text = " ".join(root.itertext())
    assert "Bytes sent from device memory" in text
    assert "Bytes sent from host memory" in text
    assert "Messages by size" in text
    assert "Share of the run's time" in text
    assert "href" not in drawing
    assert "url(" not in drawing


def test_sixteen_thousand_ranks_are_binned() -> None:
    ranks = 16384
    near = np.arange(ranks - 1)
    table = PairTable.from_pairs(near, near + 1, np.full(ranks - 1, 4096), np.ones(ranks - 1))
    drawing = traffic_svg(Traffic(ranks=ranks, origin="x", tables={samples.DEVICE_P2P: table}))
    assert len(drawing) < 200_000
