"""nvbandwidth: directions by test, both output forms, what is not used, damage."""

import json
import re

import numpy as np
import pytest

from tests.topology.readers.recorded import facts_of, facts_of_text, peers
from toposeat.errors import InputError

TEXT = """\
nvbandwidth Version: v0.7
Built from Git version: v0.7

CUDA Runtime Version: 12080

Device 0: NVIDIA A100-SXM4-80GB (00000000:07:00)
Device 1: NVIDIA A100-SXM4-80GB (0000000a:0f:00)

Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0     24.50     25.50

SUM host_to_device_memcpy_ce 50.00

Running device_to_host_memcpy_ce.
memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)
           0         1
 0     22.50     23.50

SUM device_to_host_memcpy_ce 46.00

Running device_to_device_memcpy_read_ce.
memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0       N/A    264.30
 1    262.10       N/A

SUM device_to_device_memcpy_read_ce 526.40

Running device_to_device_memcpy_write_sm.
memcpy SM GPU(row) <- GPU(column) bandwidth (GB/s)
           0         1
 0       N/A    251.00
 1    250.00       N/A

SUM device_to_device_memcpy_write_sm 501.00

Running device_to_device_bidirectional_memcpy_write_ce.
memcpy CE GPU(row) <-> GPU(column) Write1 bandwidth (GB/s)
           0         1
 0       N/A    240.00
 1    241.00       N/A

SUM device_to_device_bidirectional_memcpy_write_ce_write1 481.00

memcpy CE GPU(row) <-> GPU(column) Write2 bandwidth (GB/s)
           0         1
 0       N/A    242.00
 1    243.00       N/A

SUM device_to_device_bidirectional_memcpy_write_ce_write2 485.00

memcpy CE GPU(row) <-> GPU(column) Total bandwidth (GB/s)
           0         1
 0       N/A    482.00
 1    484.00       N/A

SUM device_to_device_bidirectional_memcpy_write_ce_total 966.00

Waived:
Running host_to_all_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0     12.00     12.00

SUM host_to_all_memcpy_ce 24.00

Running device_to_device_latency_sm.
Device to Device Latency SM GPU(row) <-> GPU(column) (ns)
           0         1
 0       N/A    825.90
 1    827.00       N/A

SUM device_to_device_latency_sm 1652.90

NOTE: The reported results may not reflect the full capabilities of the platform.
"""


def as_json(text):
    """What `nvbandwidth --json` prints for the same run: matrices of words, one list a test."""
    cases = []
    for block in text.split("Running ")[1:]:
        rows = [
            line.split()[1:]
            for line in block.splitlines()
            if re.fullmatch(r" ?\d(\s+(\d+\.\d\d|N/A))+", line)
        ]
        name = block.split(".")[0]
        cases.append({"name": name, "status": "Passed", "bandwidth_matrix": rows})
    devices = [
        "0: NVIDIA A100-SXM4-80GB (00000000:07:00): (host)",
        "1: NVIDIA A100-SXM4-80GB (0000000a:0f:00): (host)",
    ]
    return json.dumps(
        {"nvbandwidth": {"version": "v0.7", "GPU Device list": devices, "testcases": cases}},
        indent=1,
    )


@pytest.fixture(params=["text", "json"])
def facts(request):
    return facts_of_text(TEXT if request.param == "text" else as_json(TEXT))


def test_reads_go_from_column_to_row_and_writes_the_other_way(facts):
    read, write, both = facts.numbers
    assert (read.engine, read.operation, read.peer) == ("ce", "read", True)
    assert read.values[1, 0] == pytest.approx(264.30e9)
    assert read.values[0, 1] == pytest.approx(262.10e9)
    assert (write.engine, write.operation) == ("sm", "write")
    assert write.values[0, 1] == pytest.approx(251.00e9)
    assert np.isnan(np.diag(read.values)).all()
    assert both.both_ways
    assert both.values[0, 1] == pytest.approx(482e9)


def test_host_copies_devices_and_peers(facts):
    assert [(h.to_device, h.from_device) for h in facts.host_copies] == [
        (pytest.approx(24.5e9), pytest.approx(22.5e9)),
        (pytest.approx(25.5e9), pytest.approx(23.5e9)),
    ]
    assert [d.pci_bus_id for d in facts.devices] == ["0000:07:00.0", "000a:0f:00.0"]
    assert {d.name for d in facts.devices} == {"NVIDIA A100-SXM4-80GB"}
    assert peers(facts) == {(0, 1): True, (1, 0): True}


def test_says_what_it_does_not_use(facts):
    assert any("2 tests are not used, host_to_all_memcpy_ce" in line for line in facts.report)


def test_recorded_a100(shared_dir):
    facts = facts_of(shared_dir / "machines/nvbandwidth/8gpu-a100-d2d-write-ce.txt")
    (write,) = facts.numbers
    assert write.values[6, 0] == pytest.approx(274.89e9)
    assert write.values[0, 6] == pytest.approx(276.55e9)
    assert np.isnan(np.diag(write.values)).all()  # 0.00 in that version
    assert len(peers(facts)) == 56
    assert all(peers(facts).values())


def test_recorded_gh200_contradicts_itself(shared_dir):
    """Its first matrix was edited by the authors of a test: three columns, one GPU listed."""
    with pytest.raises(InputError, match="2 rows and 3 columns, but the list of devices has 1 GPU"):
        facts_of(shared_dir / "machines/nvbandwidth/1gpu-gh200.txt")


def test_pairs_that_were_not_measured_have_no_peer_access():
    text = TEXT.replace(" 1    262.10       N/A", " 1       N/A       N/A")
    text = text.replace("SUM device_to_device_memcpy_read_ce 526.40\n", "")
    facts = facts_of_text(text.split("Running device_to_device_memcpy_write_sm")[0])
    assert peers(facts) == {(1, 0): True, (0, 1): False}
    assert any("1 ordered pairs were not measured" in line for line in facts.report)


def case(matrix):
    return '{"nvbandwidth": {"testcases": [{"name": "a", "bandwidth_matrix": ' + matrix + "}]}}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"nvbandwidth": {"error": "no devices"}}', "nvbandwidth failed: 'no devices'"),
        ('{"nvbandwidth": {"testcases": [', "truncated JSON"),
        ('{"nvbandwidth": {"testcases": []}}', "no test printed a matrix"),
        (case('[["1", "2"], ["1", "2"]]'), "2 rows and 2 columns"),
        ('{"nvbandwidth": ' + "[" * 200_000, "nested too deeply"),
    ],
)
def test_refuses_json(text, words):
    with pytest.raises(InputError, match=re.escape(words)) as caught:
        facts_of_text(text)
    assert caught.value.hint


def test_a_second_run_of_a_test_is_said_to_be_left_out():
    again = TEXT[TEXT.index("Running device_to_device_memcpy_read_ce") :]
    facts = facts_of_text(f"{TEXT}\n{again}")
    assert any("has device_to_device_memcpy_read_ce again" in line for line in facts.report)
