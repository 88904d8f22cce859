"""Damaged outputs of NVIDIA's tools: read or refused with a cause and a hint."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.mutations import damaged
from toposeat.errors import InputError
from toposeat.topology.formats import parse_outputs
from toposeat.topology.readers.file_text import decoded

FOLDERS = (
    "nvbandwidth", "nvidia-smi-L", "nvidia-smi-nvlink", "nvidia-smi-p2p",
    "nvidia-smi-q", "nvidia-smi-q-xml", "nvidia-smi-query-csv", "nvidia-smi-topo",
    "p2pBandwidthLatencyTest",
)  # fmt: skip
MAX_BYTES = 30_000


@pytest.mark.parametrize("folder", FOLDERS)
def test_damage_is_read_or_refused(shared_dir: Path, folder: str) -> None:
    paths = sorted((shared_dir / "machines" / folder).iterdir())
    contents = [p.read_bytes() for p in paths if p.stat().st_size < MAX_BYTES]
    assert contents

    @settings(max_examples=40, deadline=None)
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        base = data.draw(st.sampled_from(contents))
        content = data.draw(damaged(base, others=contents))
        try:
            parse_outputs(decoded(content, Path("damaged")))
        except InputError as error:
            assert "\n" not in error.message
            assert error.hint

    check()


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_outputs(decoded(text.encode(), Path("any")))
    except InputError as error:
        assert error.hint
