"""What others verified of the recorded files (the last column of INDEX.tsv), against our reading.

The index was made without this project's readers: an independent oracle for relations, sizes and
the asymmetry of measured matrices.
"""

import csv
import re

import numpy as np
import pytest

from tests.topology.readers.recorded import facts_of, pcie, peers, relations
from toposeat.errors import InputError


def index(shared_dir, *formats):
    """File, GPUs and verification of each recorded file of some formats."""
    with (shared_dir / "machines/INDEX.tsv").open(newline="") as handle:
        for row in csv.DictReader(handle, delimiter="\t"):
            if row["format"] in formats:
                yield row["file"], int(row["#GPUs"]), row["verification"]


def test_relations_between_gpus(shared_dir):
    checked = 0
    for name, gpus, verified in index(shared_dir, "nvidia-smi-topo"):
        match = re.fullmatch(r"(?:square\+symmetric|QUIRK: [^;]*); rel=(\S*)", verified)
        try:
            facts = facts_of(shared_dir / "machines" / name)
        except InputError:
            assert verified.startswith("QUIRK"), name
            continue
        assert len(facts.devices) == gpus
        assert match, name
        words = {"SOC": "SYS"}
        expected = {words.get(word, word) for word in match[1].split(",") if word}
        between = {word for (_, j), word in relations(facts).items() if j < gpus}
        assert between == expected, name
        checked += 1
    assert checked == 25


def test_peer_states(shared_dir):
    for name, gpus, verified in index(shared_dir, "nvidia-smi-p2p"):
        facts = facts_of(shared_dir / "machines" / name)
        assert len(facts.devices) == gpus
        assert len(peers(facts)) == gpus * (gpus - 1)
        assert set(peers(facts).values()) == {verified.endswith("rel=OK")}


def test_inventories(shared_dir):
    for name, gpus, verified in index(shared_dir, "nvidia-smi-q-xml"):
        match = re.search(r"gpus=(\d+); ([^;]+);.*mig=(\S+); link gen max (\d)", verified)
        assert match
        devices = facts_of(shared_dir / "machines" / name).devices
        assert len(devices) == gpus == int(match[1])
        assert {d.name for d in devices} == {match[2]}
        assert {pcie(d).max_generation for d in devices} == {int(match[4])}
        assert not any(d.parent for d in devices)


@pytest.mark.parametrize("form", ["p2pBandwidthLatencyTest", "nvbandwidth"])
def test_matrices_and_their_asymmetry(shared_dir, form):
    for name, gpus, verified in index(shared_dir, form):
        match = re.fullmatch(
            r"(\d+) matrices, (\d+) square; worst direction asymmetry (\d+)%", verified
        )
        assert match
        if match[1] != match[2]:  # the edited GH200 run
            with pytest.raises(InputError):
                facts_of(shared_dir / "machines" / name)
            continue
        facts = facts_of(shared_dir / "machines" / name)
        assert (len(facts.devices), len(facts.numbers)) == (gpus, int(match[1]))
        assert round(100 * worst_asymmetry(facts)) == int(match[3])


def worst_asymmetry(facts):
    """The largest difference between the two directions of a pair, of the larger of them."""
    worst = 0.0
    for numbers in facts.numbers:
        values = numbers.values
        apart = np.abs(values - values.T) / np.maximum(values, values.T)
        np.fill_diagonal(apart, 0)
        worst = max(worst, float(apart.max()))
    return worst
