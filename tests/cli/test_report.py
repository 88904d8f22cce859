"""`toposeat report`: what its files are together, and what they cannot be."""

from pathlib import Path

import pytest

from toposeat.cli.main import main


@pytest.mark.parametrize("more", [["b.csv"], ["--traffic", "ring:8"]])
def test_two_traffics_are_refused(more, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("a.csv", "b.csv"):
        Path(name).write_text("0,5000000\n0,0\n")
    assert main(["report", "a.csv", *more]) == 2
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "error: report shows one traffic",
        "hint:  one at a time: toposeat report F --json",
    ]
