"""Placement files: what is written is read back, what is damaged is refused with its line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toposeat.errors import InputError, UsageError
from toposeat.model.placement import HostDevice, Placement, Seat
from toposeat.model.placement_file import (
    COLUMNS,
    format_placement,
    load_placement,
    parse_placement,
    save_placement,
)

_HOSTS = st.sampled_from(["*", "n1", "node-7.cluster.example", "N_2"])
_UUIDS = st.one_of(
    st.none(),
    st.uuids().map(lambda value: f"GPU-{value}"),
    st.uuids().map(lambda value: f"MIG-GPU-{value}/1/0"),
)
_CPUS = st.one_of(
    st.none(),
    st.lists(
        st.tuples(st.integers(0, 8191), st.integers(0, 8191)).map(
            lambda ends: f"{min(ends)}-{max(ends)}" if ends[0] != ends[1] else str(ends[0])
        ),
        min_size=1,
        max_size=4,
    ).map(",".join),
)
_NICS = st.sampled_from([None, "mlx5_0", "mlx5_10:2", "cxi3", "rocep1s0f0"])
_TEXT = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=40).map(str.strip)


@st.composite
def placements(draw):
    hosts = draw(st.lists(_HOSTS, min_size=1, max_size=3, unique=True))
    devices = {}
    seats = []
    for number, host in enumerate(hosts):
        count = draw(st.integers(1, 6))
        listed = tuple(
            HostDevice(
                index=index,
                pci_bus_id=draw(st.sampled_from([None, f"{number:04x}:{index:02x}:00.0"])),
                uuid=draw(_UUIDS),
            )
            for index in range(count)
        )
        if draw(st.booleans()):
            devices[host] = listed
        taken = draw(st.permutations(range(count)))[: draw(st.integers(1, count))]
        seats += [
            Seat(
                rank=len(seats) + local_rank,
                host=host,
                local_rank=local_rank,
                index=index,
                pci_bus_id=listed[index].pci_bus_id,
                uuid=listed[index].uuid,
                cpus=draw(_CPUS),
                memory_node=draw(st.one_of(st.none(), st.integers(0, 1023))),
                nic=draw(_NICS),
            )
            for local_rank, index in enumerate(taken)
        ]
    if "*" in devices:
        # '*' speaks for every host that has no list of its own, and these hosts differ.
        devices = {host: devices[host] for host in devices if host != "*"}
    return Placement(
        seats=tuple(seats),
        devices_of_host=devices,
        vendor=draw(st.sampled_from(["nvidia", "amd", "intel", "unknown"])),
        metadata=draw(st.dictionaries(st.sampled_from(["topology", "command", "a.b-c"]), _TEXT)),
    )


@given(placements())
def test_what_is_written_is_read_back(placement):
    assert parse_placement(format_placement(placement)) == placement


@given(placements(), st.data())
def test_a_damaged_file_is_refused_or_still_a_placement(placement, data):
    text = format_placement(placement)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    damaged = text[:start] + data.draw(st.text(max_size=8)) + text[end:]
    try:
        result = parse_placement(damaged, path="damaged.place")
    except InputError as error:
        assert "\n" not in error.message
        assert error.hint
    else:
        assert parse_placement(format_placement(result)) == result


@given(st.text())
def test_any_text_is_refused(text):
    with pytest.raises(InputError):
        parse_placement(text)


_HEAD = "# toposeat/placement/1\n# vendor: nvidia\n# devices *: 0=0000:1a:00.0=-,1=0000:3d:00.0=-\n"
_TABLE = _HEAD + "\t".join(COLUMNS) + "\n"
_ROW_0 = "0\t*\t0\t0000:1a:00.0\t-\t0\t0-3\t0\tmlx5_0\n"


def test_a_file_edited_on_windows_with_blank_lines_and_remarks_reads_the_same():
    plain = parse_placement(_TABLE + _ROW_0)
    edited = (_TABLE + "# a remark\n\n" + _ROW_0).replace("\n", "\r\n")
    assert parse_placement(edited) == plain
    assert plain.seats[0].cpus == "0-3"
    assert plain.devices_of_host["*"][1].pci_bus_id == "0000:3d:00.0"


@pytest.mark.parametrize(
    ("text", "line", "cause"),
    [
        ("", 1, "expected '# toposeat/placement/1'"),
        ("# toposeat/placement/2\n", 1, "expected '# toposeat/placement/1'"),
        ("# toposeat/placement/1\n# vendor: acme\n", 2, "vendor cannot be 'acme'"),
        (_HEAD, 4, "no table of ranks"),
        (_TABLE, 5, "no ranks: the file is truncated"),
        (_HEAD + "rank\thost\n", 4, "expected the column names"),
        (_TABLE + "0 * 0\n", 5, "expected 9 tab-separated columns, found 1"),
        (_TABLE + _ROW_0[:-8] + "\n", 5, "expected 9 tab-separated columns, found 8"),
        (_TABLE + _ROW_0 + _ROW_0, 6, "expected the line of rank 1, found rank 0"),
        (_TABLE + _ROW_0 + "1" + _ROW_0[1:], 6, "local rank 0 appears twice on host"),
        (
            _TABLE + _ROW_0 + "1\t*\t0\t0000:3d:00.0\t-\t1\t-\t-\t-\n",
            6,
            "local rank 0 appears twice on host *, first in line 5",
        ),
        (_TABLE + "0\t*\t0\t0000:3d:00.0\t-\t0\t-\t-\t-\n", 5, "device 0 is 0000:3d:00.0 here"),
        (_TABLE + "0\t*\t0\t-\t-\t7\t-\t-\t-\n", 5, "device 7 is not in the '# devices' line"),
        (_TABLE + "0\t*\t0\tbus 3\t-\t0\t-\t-\t-\n", 5, "pci cannot be 'bus 3'"),
        (_TABLE + "0\t*\t0\t-\t-\t0\t3-1\t-\t-\n", 5, "cpus cannot be '3-1'"),
        (_TABLE + "0\t*\t0\t-\t-\t0\t-\t4096\t-\n", 5, "memnode cannot be '4096'"),
        (_TABLE + "0\t*\t0\t-\t-\t0\t-\t-\ta;b\n", 5, "nic cannot be"),
        (_TABLE + "0\t\t0\t-\t-\t0\t-\t-\t-\n", 5, "host cannot be"),
        (_TABLE + "-1\t*\t0\t-\t-\t0\t-\t-\t-\n", 5, "rank cannot be '-1'"),
        (_TABLE + "٣\t*\t0\t-\t-\t0\t-\t-\t-\n", 5, "rank cannot be"),
        ("# toposeat/placement/1\n# devices n1: 0=1\n", 2, "not a device: '0=1'"),
        ("# toposeat/placement/1\n# devices n1: 0=-=-,0=-=-\n", 2, "appears twice"),
        ("# toposeat/placement/1\n# devices n1:\n# devices n1:\n", 3, "appears twice"),
    ],
)
def test_the_message_names_line_and_cause(text, line, cause):
    with pytest.raises(InputError) as caught:
        parse_placement(text, path="app.place")
    assert caught.value.line == line
    assert caught.value.message.startswith(f"app.place:{line}: ")
    assert cause in caught.value.message
    assert caught.value.hint


def test_a_saved_file_is_loaded_and_not_overwritten_unasked(tmp_path):
    path = tmp_path / "app.place"
    placement = parse_placement(_TABLE + _ROW_0)
    save_placement(placement, path)
    assert load_placement(path) == placement
    with pytest.raises(UsageError, match="exists"):
        save_placement(placement, path)
    save_placement(placement, path, overwrite=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["app.place"]


def test_missing_and_binary_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        load_placement(tmp_path / "absent")
    (tmp_path / "binary").write_bytes(b"# toposeat/placement/1\n\xff\xfe")
    with pytest.raises(InputError, match="binary:2: not a text file"):
        load_placement(tmp_path / "binary")


@pytest.mark.parametrize(
    "seat",
    [
        Seat(rank=0, local_rank=0, index=0, host="a\tb"),
        Seat(rank=0, local_rank=0, index=0, host="-"),
        Seat(rank=0, local_rank=0, index=0, nic="eth0\n"),
        Seat(rank=0, local_rank=0, index=0, cpus="all"),
        Seat(rank=0, local_rank=0, index=0, pci_bus_id="1a"),
        Seat(rank=0, local_rank=0, index=0, uuid="GPU 1"),
    ],
)
def test_names_that_would_break_the_table_are_not_written(seat):
    with pytest.raises(InputError):
        format_placement(Placement(seats=(seat,), devices_of_host={}))


@pytest.mark.parametrize("metadata", [{"a b": ""}, {"vendor": "x"}, {"a": "b\nc"}, {"a": " b"}])
def test_metadata_that_would_break_the_header_is_not_written(metadata):
    seat = Seat(rank=0, local_rank=0, index=0)
    with pytest.raises(InputError):
        format_placement(Placement(seats=(seat,), devices_of_host={}, metadata=metadata))
