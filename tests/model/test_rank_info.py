"""How an application picks its device, judged from what its ranks sent."""

from __future__ import annotations

import pytest

from toposeat.model.traffic import DeviceChoice, DeviceUse, RankInfo, Traffic

NO = None


def choice(*ranks: tuple[str, int | None, int | None, int | None]) -> DeviceChoice:
    """Of ranks given as (host, local rank, ordinal, visible devices)."""
    info = tuple(
        RankInfo(rank=r, host=host, local_rank=local, device_ordinal=ordinal, visible_devices=seen)
        for r, (host, local, ordinal, seen) in enumerate(ranks)
    )
    return Traffic(ranks=max(len(ranks), 1), origin="t", tables={}, rank_info=info).device_choice


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ([("a", 0, 0, 4), ("a", 1, 1, 4), ("b", 0, 0, 4)], DeviceChoice.LOCAL_RANK),
        ([("a", r, r % 2, 2) for r in range(4)], DeviceChoice.LOCAL_RANK),  # more ranks than GPUs
        ([("a", 0, 0, NO), ("a", 1, 1, NO)], DeviceChoice.LOCAL_RANK),
        ([("a", 0, 0, 4), ("a", 2, 1, 4), ("a", 1, 2, 4)], DeviceChoice.LOCAL_RANK),  # Open MPI 5
        ([("a", 0, 0, 4), ("a", 2, 2, 4), ("a", 1, 1, 4)], DeviceChoice.LOCAL_RANK),
        ([("b", 0, 0, 4), ("a", NO, 0, 4), ("a", NO, 1, 4)], DeviceChoice.LOCAL_RANK),
        ([("a", 0, 0, 4), ("a", 1, 0, 4)], DeviceChoice.DEVICE_0),
        ([("a", NO, 0, 4), ("a", NO, 0, 4)], DeviceChoice.DEVICE_0),
        ([("a", 0, 1, 2), ("a", 1, 0, 2)], DeviceChoice.OWN),
        ([("a", NO, 1, 2), ("a", NO, 0, 2)], DeviceChoice.UNKNOWN),  # local ranks not known
        ([("a", 0, 0, 1), ("a", 1, 0, 1)], DeviceChoice.UNKNOWN),  # masked by somebody
        ([("a", 0, 0, 4), ("b", 0, 0, 4)], DeviceChoice.UNKNOWN),  # one rank per node: both
        ([("a", 0, NO, 4), ("a", 1, NO, 4)], DeviceChoice.UNKNOWN),
        ([], DeviceChoice.UNKNOWN),
    ],
)
def test_device_choice(ranks: list[tuple[str, int, int, int]], expected: DeviceChoice) -> None:
    assert choice(*ranks) is expected


def test_the_device_with_most_bytes_counts() -> None:
    uses = (
        DeviceUse(pci_bus_id=None, ordinal=None, bytes=90),
        DeviceUse(pci_bus_id="0000:01:00.0", ordinal=1, bytes=80),
        DeviceUse(pci_bus_id="0000:02:00.0", ordinal=0, bytes=1),
    )
    assert RankInfo(rank=0, devices=uses, device_ordinal=0).main_ordinal == 1
