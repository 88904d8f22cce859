# SPDX-License-Identifier: MIT OR Apache-2.0
"""A ring in mpi4py: NumPy buffers around it, pickled objects across it, one Alltoallv at the end.

Run: mpirun -n 4 python ring.py [ITERATIONS]
"""

from __future__ import annotations

import sys

import numpy as np
from mpi4py import MPI

POINTS = 8192


def main() -> None:
    iterations = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    comm = MPI.COMM_WORLD
    rank, ranks = comm.Get_rank(), comm.Get_size()
    right, left = (rank + 1) % ranks, (rank - 1) % ranks

    sent = np.full(POINTS, rank, dtype=np.float64)
    received = np.empty_like(sent)
    for _ in range(iterations):
        comm.Sendrecv(sent, dest=right, recvbuf=received, source=left)
        sent, received = received, sent

    # Pickled objects take several messages each; their size is Python's business.
    greeting = comm.sendrecv({"from": rank}, dest=left, source=right)
    assert greeting == {"from": right}

    # Rank r owes rank p exactly (p + 1) * 8 bytes.
    counts = np.arange(1, ranks + 1)
    blocks = np.zeros(counts.sum(), dtype=np.float64)
    gathered = np.zeros(ranks * (rank + 1), dtype=np.float64)
    comm.Alltoallv([blocks, counts], [gathered, np.full(ranks, rank + 1)])

    total = comm.allreduce(float(sent[0]), op=MPI.SUM)
    if rank == 0:
        print(f"ring: {iterations} iterations, sum {total:.1f}")


if __name__ == "__main__":
    main()
