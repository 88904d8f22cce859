"""Real frameworks on one node: started as their users do, every rank bound and judged."""

import os
from pathlib import Path

import pytest

from tests.profile.test_frameworks import PROGRAM, RANKS, STARTERS, why_not
from tests.support.pytorch import python_with_torch, why_no_torch
from toposeat.launch import run_placed
from toposeat.model.runs import SeatVerdict

pytestmark = [
    pytest.mark.skipif(bool(why_no_torch()), reason=why_no_torch() or "none"),
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this process may use one CPU"),
]


@pytest.mark.parametrize("case", STARTERS)
def test_every_rank_has_its_seat(case, tmp_path, place, monkeypatch):
    why = why_not(case)
    if why:
        pytest.skip(why)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    environment = {
        **os.environ,
        "PATH": f"{Path(python_with_torch()).parent}:{os.environ['PATH']}",
        **{"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "DS_ACCELERATOR": "cpu"},
        "RAY_ADDRESS": "local",  # not one of another job on this machine
    }
    placed = place(RANKS, bind=True)
    line = [*STARTERS[case], str(PROGRAM), "2", case]
    record = run_placed(line, *placed, environment=environment, strict=True)
    assert record.exit_code == 0
    assert [seat.cpus for seat in record.seats] == [seat.cpus for seat in placed[0].seats]
    assert {seat.used_device for seat in record.seats} == {False}
    assert record.verdict is SeatVerdict.AS_PLACED
