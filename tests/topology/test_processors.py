"""Families of processors: names and models from public places find theirs, numbers are in order."""

import re
from pathlib import Path

import pytest

from toposeat.topology.processors import families, family_of, unknown

# Of every family names as lscpu prints them, and models as NCCL writes them: an engineering sample
# beside MI200 and the processor of MI300A are of none.
_, _NAMES, _MODELS = Path(__file__).with_name("processors.tsv").read_text().split("# Family")
NAMED, MODELS = ([line.split("\t") for line in text.splitlines()[1:]] for text in (_NAMES, _MODELS))
EVERY = [*families(), *map(unknown, (None, 1, 3, 4, 5, 6))]


@pytest.mark.parametrize(("family", "name"), NAMED)
def test_a_model_finds_its_family_by_name(family, name):
    assert family_of((), name).name == family


@pytest.mark.parametrize(("family", "told"), MODELS)
def test_a_model_finds_its_family_by_numbers(family, told):
    assert family_of(told).name == family
    assert family_of(tuple(told.split())).name == family


def test_every_family_is_found_by_a_name():
    assert {each.name for each in families()} == {family for family, _ in NAMED} - {"unknown"}


def test_a_name_tells_more_than_numbers():
    """Threadripper 3000 has the numbers of Rome."""
    told = ("x86_64", "AuthenticAMD", "23", "49")
    assert family_of(told, "AMD Ryzen Threadripper PRO 3995WX 64-Cores").name == "Threadripper 3000"


@pytest.mark.parametrize("family", EVERY, ids=lambda each: f"{each.name} {each.pcie}")
def test_numbers_are_intervals_with_a_source(family):
    for member, number in family.numbers.items():
        assert 0 < number.low <= number.nominal <= number.high, member
        assert re.fullmatch(r".{20,}\.", number.source), member
        if number.unit == "times one direction":
            assert number.high <= 2, member
        if number.unit.startswith("of "):
            assert number.high <= 1, member
    assert family.staged_across.nominal <= family.staged_within.nominal
    assert family.copied_across.nominal <= family.copied_within.nominal
    assert family.flow_across.nominal <= family.sockets.high


def test_where_nothing_is_told_there_is_no_opinion():
    """The nominal numbers call all places alike, and the range holds those of every family."""
    for generation, links in ((None, 25), (3, 12), (4, 25), (5, 52)):
        family = unknown(generation)
        assert family.flow_across.nominal == links  # of x16
        assert family.host_bridge.nominal == 1
        assert family.staged_across.nominal == family.staged_within.nominal
        for each in families():
            if generation in (None, each.pcie):
                for member, number in each.numbers.items():
                    wide = family.numbers[member]
                    assert wide.low <= number.low, member
                    assert number.high <= wide.high, member


def test_the_processors_of_recorded_machines_are_known(shared_dir):
    """Every model in the files of recorded machines is one of those above."""
    names, models = set[str](), set[str]()
    for path in (shared_dir / "machines").rglob("*"):
        if not path.is_file() or path.stat().st_size > 4 << 20:
            continue
        text = path.read_text(errors="replace")
        names |= set(re.findall(r'name="CPUModel" value="([^"]*)"', text))
        names |= set(re.findall(r"^Model name: +(.*\S)", text, re.MULTILINE))
        for cpu in re.findall(r"<cpu (.*)>", text):
            told = [re.search(rf'\b{word}="([^"]+)"', cpu) for word in
                    ("arch", "vendor", "familyid", "modelid")]  # fmt: skip
            models.add(" ".join(found[1] for found in told if found))
    assert len(names) > 5
    assert len(models) > 3
    untold = {name.strip() for name in names if family_of((), name).name == "unknown"}
    assert untold <= {name for family, name in NAMED if family == "unknown"}
    assert models <= {told for _, told in MODELS}
