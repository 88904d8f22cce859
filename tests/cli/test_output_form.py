"""The name of a file says which form it has, in every verb."""

import json

import pytest

from toposeat.cli.main import main
from toposeat.topology import read_topology

BEGINNINGS = {
    "svg": "<?xml",
    "html": "<!DOCTYPE html>",
    "json": "{",
    "xml": "<system",
    "txt": "Top",
}


@pytest.mark.parametrize(("ending", "beginning"), BEGINNINGS.items())
def test_a_machine_is_written_as_its_file_is_named(tmp_path, ending, beginning):
    path = tmp_path / f"machine.{ending}"
    assert main(["discover", "-t", "k40-4", "-o", str(path)]) == 0
    assert path.read_text().lstrip().startswith(beginning)
    if ending == "json":
        assert len(read_topology(str(path)).devices) == 4


@pytest.mark.parametrize("source", ["k40-4", "fattree:64:16:32"])
@pytest.mark.parametrize(("form", "starts"), [("svg", "<"), ("json", "{"), ("text", "TN")])
def test_format_decides_where_the_name_does_not(tmp_path, source, form, starts, capsys):
    """Of a machine and of a network; `--json` prints beside the file, `--format` does not."""
    path = tmp_path / "file"
    words = ["discover", "-t", source, "--format", form, "-f", "-o", str(path)]
    assert main(words) == 0
    assert path.read_text()[0] in starts
    assert capsys.readouterr().out == ""
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"]


def test_reports_and_pages(tmp_path):
    machine, page = tmp_path / "m.json", tmp_path / "page.html"
    assert main(["discover", "-t", "k40-4", "-o", str(machine)]) == 0
    assert main(["report", str(machine), "-o", str(tmp_path / "m.svg")]) == 0
    assert (tmp_path / "m.svg").read_text().startswith("<?xml")
    assert main(["report", str(machine), "-o", str(tmp_path / "again.json")]) == 0
    assert json.loads((tmp_path / "again.json").read_text())["name"] == "k40-4"
    assert main(["map", "ring:4", "-t", "k40-4", "-o", str(page)]) == 0
    assert page.read_text().startswith("<!DOCTYPE html>")
