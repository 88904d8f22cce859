"""Fixtures for the tests of the launch package: a small MPI program, placements for real runs."""

import os

import pytest

from tests.support.interposed import compile_text
from toposeat.model.placement import HostDevice, Placement, Seat
from toposeat.model.placement_file import save_placement

# Prints what each rank sees; the arguments say how it ends.
PROBE = r"""
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static const char *show(const char *name) {
  const char *value = getenv(name);
  return value == NULL ? "-" : value;
}
int main(int argc, char **argv) {
  int rank, size, code = 0;
  char parent[64] = "", path[64], line[512];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  snprintf(path, sizeof path, "/proc/%d/comm", (int)getppid());
  FILE *file = fopen(path, "r");
  if (file != NULL && fgets(parent, sizeof parent, file) != NULL)
    parent[strcspn(parent, "\n")] = '\0';
  int length = snprintf(line, sizeof line, "rank=%d size=%d list=%s order=%s parent=%s pid=%d\n",
                        rank, size, show("CUDA_VISIBLE_DEVICES"), show("CUDA_DEVICE_ORDER"), parent,
                        (int)getpid());
  if (write(1, line, (size_t)length) != length) return 99;
  MPI_Barrier(MPI_COMM_WORLD);
  if (argc > 1 && strcmp(argv[1], "exit") == 0) code = atoi(argv[2]);
  if (argc > 1 && strcmp(argv[1], "raise") == 0 && rank == 1) raise(atoi(argv[2]));
  if (argc > 1 && strcmp(argv[1], "sleep") == 0) sleep(60);
  MPI_Finalize();
  return code;
}
"""


@pytest.fixture(scope="session")
def probe(mpi, build_dir):
    """An MPI program that tells what its ranks see."""
    return compile_text(mpi, "probe", PROBE, build_dir)


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
