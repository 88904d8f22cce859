"""A profile's standalone drawing."""

import xml.etree.ElementTree as ET

import numpy as np

from tests.report import samples
from tests.report.profile_samples import full_profile
from toposeat.model.traffic import PairTable, Traffic
from toposeat.report import traffic_svg


def test_the_drawing_stands_alone():
    drawing = traffic_svg(full_profile())
    root = ET.fromstring(drawing.encode())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    text = " ".join(root.itertext())
    assert "Bytes sent from device memory" in text
    assert "Bytes sent from host memory" in text
    assert "href" not in drawing
    assert "url(" not in drawing


def test_sixteen_thousand_ranks_are_binned():
    ranks = 16384
    near = np.arange(ranks - 1)
    table = PairTable.from_pairs(near, near + 1, np.full(ranks - 1, 4096), np.ones(ranks - 1))
    drawing = traffic_svg(Traffic(ranks=ranks, origin="x", tables={samples.DEVICE_P2P: table}))
    assert len(drawing) < 200_000
