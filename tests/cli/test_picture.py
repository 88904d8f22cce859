"""PNG pictures by whatever converter is installed."""

from __future__ import annotations

import re
import shutil
import struct
import zlib
from pathlib import Path

import pytest

from tests.support.processes import executable
from toposeat.cli import output
from toposeat.cli.main import main
from toposeat.errors import ToposeatError, UnavailableError
from toposeat.report import topology_svg
from toposeat.topology import read_topology

NAMES = [name for name in output.CONVERTERS if shutil.which(name)]


def chunks(png: bytes) -> dict[bytes, bytes]:
    """Chunks of a PNG by type, those of one type joined."""
    found: dict[bytes, bytes] = {}
    at = 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        kind = png[at + 4 : at + 8]
        found[kind] = found.get(kind, b"") + png[at + 8 : at + 8 + length]
        at += 12 + length
    return found


@pytest.mark.skipif(not NAMES, reason="no SVG converter on PATH")
def test_a_picture_of_the_drawing(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """Twice the size of the SVG, and coloured: a converter that knew no colour paints black."""
    assert main(["discover", "-t", "dgx-1v", "--format", "png"]) == 0
    png = capsysbinary.readouterr().out
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    parts = chunks(png)
    width, height, depth, colour = struct.unpack(">IIBB", parts[b"IHDR"][:10])
    size = re.search(r'width="(\d+)" height="(\d+)"', topology_svg(read_topology("dgx-1v")))
    assert size is not None
    assert (width, height) == (2 * int(size[1]), 2 * int(size[2]))
    if (depth, colour) == (8, 6):  # red, green, blue, alpha
        rows = zlib.decompress(parts[b"IDAT"])
        assert len(set(rows[1 :: 4 * width + 1])) >= 1
        assert len(set(rows)) > 30


def test_plain_drawings_have_values_for_variables() -> None:
    svg = output.plain_svg(topology_svg(read_topology("dgx-1v")))
    assert "var(" not in svg
    assert "prefers-color-scheme" not in svg
    assert ".kind-nvlink { stroke: #00875f; }" in svg
    assert output.plain_svg("<svg/>") == "<svg/>"


def test_no_converter_is_refused_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UnavailableError, match="a PNG needs a converter") as caught:
        output.png_of_svg("<svg/>")
    assert "librsvg2-bin" in caught.value.hint


@pytest.mark.parametrize(
    ("script", "cause"),
    [("echo not good >&2; exit 3", "not good"), ("echo text", "exit code 0")],
)
def test_a_converter_that_fails_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, cause: str
) -> None:
    executable(tmp_path / "rsvg-convert", f"#!/bin/sh\n{script}\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(ToposeatError, match=cause):
        output.png_of_svg("<svg/>")
