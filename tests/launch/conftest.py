"""Fixtures for the tests of the launch package: a small MPI program, placements for real runs."""

import os
from pathlib import Path

import pytest

from tests.support.interposed import compile_c
from toposeat.model.placement import HostDevice, Placement, Seat
from toposeat.model.placement_file import save_placement


@pytest.fixture(scope="session")
def probe(mpi, build_dir):
    """An MPI program that tells what its ranks see."""
    return compile_c(mpi, Path(__file__).parent / "programs" / "probe.c", build_dir)


@pytest.fixture
def place(tmp_path):
    """Makes a placement of `ranks` on four devices, backwards, with or without CPU sets."""

    def make(ranks, *, bind=False, host="*"):
        devices = tuple(
            HostDevice(index=i, pci_bus_id=f"0000:{16 + i:02x}:00.0", uuid=f"GPU-{i}")
            for i in range(4)
        )
        cpus = sorted(os.sched_getaffinity(0))
        seats = tuple(
            Seat(
                rank=i,
                host=host,
                local_rank=i,
                index=3 - i,
                pci_bus_id=devices[3 - i].pci_bus_id,
                uuid=devices[3 - i].uuid,
                cpus=str(cpus[i % len(cpus)]) if bind else None,
            )
            for i in range(ranks)
        )
        placement = Placement(seats=seats, devices_of_host={host: devices}, vendor="nvidia")
        path = tmp_path / "app.place"
        save_placement(placement, path, overwrite=True)
        return placement, path

    return make
