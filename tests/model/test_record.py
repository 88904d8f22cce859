"""A record is for `dataclasses` what a frozen dataclass with the same members is."""

import copy
import dataclasses
import pickle
from collections.abc import Mapping

import pytest
from msgspec import field

from toposeat.model.record import Record


class Base(Record, frozen=True, kw_only=True):
    """A record with members of each form."""

    name: str
    sizes: tuple[int, ...] = (1, 2)
    notes: Mapping[str, str] = field(default_factory=dict)
    last: float


class Longer(Base, frozen=True, kw_only=True):
    """One more member."""

    more: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class Twin:
    """The members of `Longer`."""

    name: str
    sizes: tuple[int, ...] = (1, 2)
    notes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    last: float
    more: bool = False


RECORD, TWIN = Longer(name="a", last=0.5), Twin(name="a", last=0.5)


def test_members_and_their_defaults_are_those_of_a_dataclass():
    def said(kind):
        return [
            (each.name, str(each.type), each.default, each.default_factory)
            for each in dataclasses.fields(kind)
        ]

    assert sorted(said(Longer), key=str) == sorted(said(Twin), key=str)
    assert dataclasses.is_dataclass(RECORD)


def test_dataclasses_take_a_record_apart_and_make_another():
    assert dataclasses.asdict(RECORD) == dataclasses.asdict(TWIN)
    other = dataclasses.replace(RECORD, name="b", more=True)
    assert (type(other), other.name, other.more, other.sizes) == (Longer, "b", True, (1, 2))
    with pytest.raises(TypeError, match="other"):
        dataclasses.replace(RECORD, other=1)


def test_a_record_is_frozen_and_equal_by_value_and_survives_copies():
    with pytest.raises(AttributeError):
        RECORD.name = "b"  # type: ignore[misc]
    for other in (copy.copy(RECORD), copy.deepcopy(RECORD), pickle.loads(pickle.dumps(RECORD))):
        assert other == RECORD
    assert Base(name="a", last=0.5) != RECORD
    assert repr(RECORD) == repr(TWIN).replace("Twin", "Longer")
