"""What becomes of every recorded file of NVIDIA's tools, compared line by line."""

from __future__ import annotations

import re
from pathlib import Path

from tests.topology.readers.verdicts import EXPECTED, FOLDERS, as_tsv, verdicts


def test_nothing_changes_unseen(shared_dir: Path) -> None:
    """Renew with `python -m tests.topology.readers.verdicts --write`, and look at the changes."""
    found = as_tsv(list(verdicts(shared_dir / "machines", FOLDERS)))
    assert found.splitlines() == EXPECTED.read_text().splitlines()


def test_every_file_of_the_index_has_a_verdict(shared_dir: Path) -> None:
    index = (shared_dir / "machines/INDEX.tsv").read_text()
    listed = set(re.findall(rf"^((?:{'|'.join(FOLDERS)})/\S+)\t", index, re.MULTILINE))
    stated = {line.split("\t")[0] for line in EXPECTED.read_text().splitlines()[1:]}
    assert listed == stated


def test_every_refusal_has_a_cause() -> None:
    lines = [line.split("\t") for line in EXPECTED.read_text().splitlines()[1:]]
    refused = [line for line in lines if line[1] == "refused"]
    assert {line[1] for line in lines} == {"machine", "facts", "refused"}
    assert all(len(line[6]) > 15 for line in refused)
