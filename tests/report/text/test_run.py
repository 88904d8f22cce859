from __future__ import annotations

from dataclasses import replace

from tests.report import samples
from toposeat.report import TextStyle, render_run_text

RUN = """\
Run       mpirun -n 3 './my app'
Placed by app.place, visibility permute
Where     node07, 2026-11-20T22:00:00Z
Measured  wall time 61.3 s, exit code 0

rank  host    pci           cpus  verdict
   0  node07  0000:04:00.0  0-3   as placed
   1  node07  0000:05:00.0  -     mismatch
   2  node07  -             -     not checked

Verification: 1 rank as placed, 1 rank mismatch, 1 rank not checked
- rank 1: device 0000:05:00.0 instead of 0000:06:00.0
"""


def test_exact_text() -> None:
    assert render_run_text(samples.run_record()) == RUN


def test_measured_never_beside_predicted() -> None:
    assert "predict" not in render_run_text(samples.run_record()).lower()


def test_mismatch_is_loud_in_colour() -> None:
    text = render_run_text(samples.run_record(), TextStyle(colour=True))
    assert "\x1b[1;31mmismatch" in text


def test_run_without_reports() -> None:
    record = replace(samples.run_record(), seats=(), repeats=5, notes=("stopped early",))
    text = render_run_text(record)
    assert "61.3 s, 5 runs" in text
    assert "- stopped early" in text
    assert "rank" not in text
