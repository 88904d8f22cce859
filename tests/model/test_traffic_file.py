import random
import sqlite3
from contextlib import closing
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.model.samples import traffics
from tests.report.profile_samples import full_profile
from toposeat.errors import InputError, UsageError
from toposeat.model.traffic import MemorySpace, PairTable, Traffic, TrafficKind
from toposeat.model.traffic_file import is_profile, load_traffic, save_traffic


def small():
    table = PairTable.from_dense([[0, 5], [7, 0]], [[0, 1], [2, 0]])
    return Traffic(
        ranks=2, origin="test", tables={(TrafficKind.POINT_TO_POINT, MemorySpace.HOST): table}
    )


def parts_of(part):
    """The fields by name: these dataclasses hold arrays and have no equality of their own."""
    return {field.name: getattr(part, field.name) for field in fields(part)}


def rows_of(path):
    """Everything that a profile says, as text."""
    with closing(sqlite3.connect(path)) as database:
        return list(database.iterdump())


def test_a_profile_without_a_digest_is_read_with_a_doubt(tmp_path):
    path = tmp_path / "old.prof"
    save_traffic(small(), path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("DELETE FROM meta WHERE key = 'digest'")
        database.commit()
    (doubt,) = load_traffic(path).report
    assert "without a digest" in doubt
    save_traffic(load_traffic(path), path, overwrite=True)
    assert load_traffic(path).report == (doubt,)


def test_a_flipped_bit_is_refused_or_changes_nothing(tmp_path):
    good, bad, again = (tmp_path / name for name in ("good.prof", "bad.prof", "again.prof"))
    save_traffic(full_profile(), good)
    data, rows, source = good.read_bytes(), rows_of(good), random.Random(20261122)
    refused = 0
    for bit in source.sample(range(8 * len(data)), 300):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        bad.write_bytes(flipped)
        try:
            traffic = load_traffic(bad)
        except InputError as error:
            assert error.hint
            refused += 1
            continue
        if any("digest" in line for line in traffic.report):  # the flip was in the digest's name
            continue
        save_traffic(traffic, again, overwrite=True)
        assert rows_of(again) == rows, f"bit {bit}"
    assert refused > 10


@settings(max_examples=30, deadline=None)
@given(traffic=traffics())
def test_round_trip(tmp_path_factory, traffic):
    path = tmp_path_factory.mktemp("profile") / "app.prof"
    save_traffic(traffic, path)
    again = load_traffic(path)
    for name in ("ranks", "origin", "collectives", "groups", "communicators", "collective_model"):
        assert getattr(again, name) == getattr(traffic, name)
    assert again.rank_info == traffic.rank_info
    assert again.timed == traffic.timed
    assert [parts_of(p) for p in again.phases] == [parts_of(p) for p in traffic.phases]
    assert again.report == traffic.report
    assert dict(again.metadata) == dict(traffic.metadata)
    assert dict(again.tables) == dict(traffic.tables)
    assert again.histograms.keys() == traffic.histograms.keys()
    for key, counts in traffic.histograms.items():
        assert np.array_equal(again.histograms[key], counts)


def test_never_overwrites_unasked(tmp_path):
    path = tmp_path / "app.prof"
    save_traffic(small(), path)
    before = path.read_bytes()
    with pytest.raises(UsageError, match="exists"):
        save_traffic(small(), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["app.prof"]


def test_other_files_are_not_profiles(tmp_path):
    path = tmp_path / "x"
    path.write_text("rank,rank\n")
    assert not is_profile(path)
    with pytest.raises(InputError, match="not a toposeat profile"):
        load_traffic(path)


def test_other_schema_version_is_refused_by_name(tmp_path):
    path = tmp_path / "app.prof"
    save_traffic(small(), path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE meta SET value = 'toposeat/profile/9' WHERE key = 'schema'")
        database.commit()
    with pytest.raises(InputError, match="'toposeat/profile/9'"):
        load_traffic(path)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damaged_database_is_an_input_error_or_harmless(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("damage") / "app.prof"
    save_traffic(small(), path)
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content))) :]
    else:
        for _ in range(data.draw(st.integers(1, 30))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content)
    try:
        load_traffic(path)
    except InputError as error:
        assert error.hint
