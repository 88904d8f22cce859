"""`toposeat report A B`: two profiles are compared; more, or anything beside them, is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.report.profile_samples import full_profile
from toposeat.cli.main import main
from toposeat.model.traffic_file import save_traffic


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save_traffic(full_profile(), tmp_path / "a.prof")
    Path("b.csv").write_text("0,5000000,0\n0,0,7000000\n0,0,0\n")
    Path("c.csv").write_text("0,5000000,0\n0,0,0\n0,9000000,0\n")
    return tmp_path


@pytest.mark.usefixtures("files")
def test_two_are_compared_in_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "b.csv", "c.csv"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert words.startswith("Verdict bytes 11.4 MiB to 13.4 MiB (+17 %); time not timed in both")
    assert "rank 2 -> 1 0 B 8.58 MiB new" in words
    assert main(["report", "b.csv", "c.csv", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in document["profiles"]] == ["b.csv", "c.csv"]
    assert (document["ranks"]["bytes_left"], document["ranks"]["bytes_came"]) == (7000000, 9000000)
    for name in ("both.html", "both.svg", "both.json"):
        assert main(["report", "b.csv", "c.csv", "-o", name]) == 0
    assert "b.csv and c.csv" in Path("both.html").read_text()
    assert "after: c.csv, 3 ranks" in Path("both.svg").read_text()
    assert json.loads(Path("both.json").read_text()) == document
    assert main(["report", "a.prof", "c.csv"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert words.startswith("Verdict 4 ranks to 3; bytes of a rank")


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("more", "cause", "hint"),
    [
        (["a.prof"], "two profiles", "toposeat report b.csv c.csv"),
        (["-t", "dgx-1v"], "two profiles", "toposeat report b.csv c.csv"),
        (["--traffic", "ring:8"], "two profiles", "toposeat report b.csv c.csv"),
        (["--format", "csv"], "one traffic", "name one profile"),
    ],
)
def test_what_belongs_to_one_is_refused(
    more: list[str], cause: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "b.csv", "c.csv", *more]) == 2
    said = capsys.readouterr().err
    assert cause in said
    assert hint in said
