"""Mapping results that older versions wrote are read; what they say of a placement is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toposeat.errors import InputError
from toposeat.model.result_file import MAPPING_SCHEMA, is_mapping, parse_mapping

SAVED = Path(__file__).parent / "saved"


@pytest.mark.parametrize("name", ["mapping2", "scale2", "scale2g"])
def test_an_older_result_is_read(name: str) -> None:
    text = (SAVED / f"{name}.json").read_text()
    old = json.loads(text)
    assert is_mapping(text[:200])
    found = parse_mapping(text, name)
    assert list(found.device_of_rank) == old["device_of_rank"]
    assert found.ranks == old["ranks"]
    assert found.certificate.word == old["certificate"]["word"]
    for which in ("default", "placed"):
        each = getattr(found, which)
        assert each.cost == old[which]["cost"]
        assert each.hop_bytes == old[which]["hop_bytes"]
        assert [load.link for load in each.links] == [load["link"] for load in old[which]["links"]]
        assert [load.level for load in each.levels] == [
            load["level"] for load in old[which].get("levels", ())
        ]
    if old["schema"] == "toposeat/scale/2":
        assert list(found.hosts) == old["hosts"]
        assert found.slots == old["slots"]
        assert [each.name for each in found.candidates] == [x["name"] for x in old["candidates"]]


def test_with_groups_the_time_of_an_older_result_is_the_sum_of_its_phases() -> None:
    found = parse_mapping((SAVED / "scale2g.json").read_text(), "x")
    assert len(found.placed.phases) == 2
    assert found.placed.predicted_s == sum(phase.seconds for phase in found.placed.phases)


def test_moves_of_an_older_explanation_keep_their_names() -> None:
    for name, ends in (("scale2", "levels"), ("mapping2", "links")):
        text = (SAVED / f"{name}.json").read_text()
        old, found = json.loads(text)["explanation"], parse_mapping(text, name).explanation
        assert found is not None
        assert found.moved_pairs == old["moved_pairs"]
        told = [(list(x.links_before), list(x.links_after)) for x in found.moves]
        assert told == [(x[f"{ends}_before"], x[f"{ends}_after"]) for x in old["moves"]]


@pytest.mark.parametrize(
    ("name", "part", "members"),
    [
        ("scale2g", "placed", {"phases": [3]}),
        ("scale2g", "placed", {"phases": [{"label": "x"}]}),
        ("scale2g", "default", {"phases": [{"label": "x", "seconds": "x"}]}),
        ("scale2", "explanation", {"moves": None}),
        ("scale2", "explanation", {"moves": [1]}),
    ],
)
def test_a_part_of_another_type_is_refused_with_its_place(
    name: str, part: str, members: dict[str, object]
) -> None:
    document = json.loads((SAVED / f"{name}.json").read_text())
    document[part].update(members)
    with pytest.raises(InputError, match=rf"\(at {part}\."):
        parse_mapping(json.dumps(document), "saved.json")


@pytest.mark.parametrize(
    "damage", ["{", '"placed": 3', '"device_of_rank": [0, 1, 2, 99]', '"device_of_rank": 7']
)
def test_a_damaged_older_result_is_refused(damage: str) -> None:
    text = (SAVED / "scale2.json").read_text()
    name, colon, _ = damage.partition(":")
    document = {**json.loads(text), **(json.loads("{" + damage + "}") if colon else {})}
    with pytest.raises(InputError, match="saved"):
        parse_mapping(json.dumps(document) if colon else text[:300] + name, "saved.json")
    assert MAPPING_SCHEMA not in text
