/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * crash HOW TRUTH: one rank ends in an unusual way after everybody sent what is in TRUTH, a size x
 * size matrix of bytes and one of messages (int64): segv, abort, kill or exit. The others wait for
 * it in vain.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void send_around(int rank, int size, long long *truth) {
  static char buffer[4096], in[4096];
  for (int step = 1; step < 50; ++step) {
    int to = (rank + step) % size, from = (rank + 49 * size - step) % size;
    int bytes = 7 * step + rank;
    MPI_Sendrecv(buffer, bytes, MPI_BYTE, to, 0, in, sizeof in, MPI_BYTE, from, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    truth[(long)rank * size + to] += bytes;
    truth[(long)size * size + (long)rank * size + to] += 1;
  }
}

static void end(const char *how) {
  if (strcmp(how, "segv") == 0)
    raise(SIGSEGV);
  if (strcmp(how, "kill") == 0)
    raise(SIGKILL);
  if (strcmp(how, "abort") == 0)
    MPI_Abort(MPI_COMM_WORLD, 5);
  _exit(9);
}

int main(int argc, char **argv) {
  int rank, size;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  size_t bytes = sizeof(long long) * 2 * (size_t)size * (size_t)size;
  int file = open(argv[2], O_RDWR | O_CREAT, 0644);
  if (file < 0 || ftruncate(file, (off_t)bytes) != 0)
    return 2;
  send_around(rank, size, mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1)
    end(argv[1]);
  pause();
  return 0;
}
