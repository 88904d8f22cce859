/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every rank sends to the next one from each kind of memory that the CUDA runtime gives, a number
   of bytes that tells the kind, and checks what it receives. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cudart.h"

enum { ROOM = 1 << 18, TIMES = 3 };

static void must(int result, const char *what) {
  if (result == 0)
    return;
  (void)fprintf(stderr, "%s answers %d\n", what, result);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

#define DO(call) must(call, #call)

static void exchange(unsigned char *memory, int bytes) {
  unsigned char *host = malloc(ROOM);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  memset(host, 100 + rank, ROOM);
  DO(cudaMemcpy(memory, host, ROOM, cudaMemcpyDefault));
  const int before = (rank + ranks - 1) % ranks;
  for (int i = 0; i < TIMES; ++i)
    MPI_Sendrecv(memory + 64, bytes, MPI_BYTE, (rank + 1) % ranks, i, memory + ROOM / 2, bytes,
                 MPI_BYTE, before, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  DO(cudaMemcpy(host, memory, ROOM, cudaMemcpyDefault));
  must(host[ROOM / 2] != 100 + before || host[ROOM / 2 + bytes - 1] != 100 + before ||
           host[ROOM / 2 + bytes] != 100 + rank,
       "what was received");
  free(host);
}

/* The next rank's memory by its handle: 64 bytes of host memory go from rank to rank. */
static void open_previous(void *memory, int rank, int ranks) {
  CUipcMemHandle mine;
  CUipcMemHandle theirs;
  unsigned char byte = 0;
  void *opened = NULL;
  const int before = (rank + ranks - 1) % ranks;
  DO(cudaMemset(memory, 50 + rank, ROOM));
  DO(cudaDeviceSynchronize());
  DO(cudaIpcGetMemHandle(&mine, memory));
  MPI_Sendrecv(&mine, sizeof mine, MPI_BYTE, (rank + 1) % ranks, 9, &theirs, sizeof theirs,
               MPI_BYTE, before, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  DO(cudaIpcOpenMemHandle(&opened, theirs, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  DO(cudaMemcpy(&byte, (char *)opened + ROOM - 1, 1, cudaMemcpyDeviceToHost));
  must(byte != 50 + before, "the byte of the other process");
  DO(cudaIpcCloseMemHandle(opened));
  MPI_Barrier(MPI_COMM_WORLD);
}

int main(int count, char **arguments) {
  int rank = 0;
  int ranks = 0;
  int devices = 0;
  void *device = NULL;
  void *pooled = NULL;
  void *managed = NULL;
  void *pinned = NULL;
  MPI_Init(&count, &arguments);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  DO(cudaGetDeviceCount(&devices));
  DO(cudaSetDevice(rank % devices));
  DO(cudaMalloc(&device, ROOM));
  DO(cudaMallocAsync(&pooled, ROOM, NULL));
  DO(cudaMallocManaged(&managed, ROOM, 1));
  DO(cudaMallocHost(&pinned, ROOM));
  unsigned char *pageable = malloc(ROOM);
  exchange(device, 1000);
  exchange(pooled, 20000);
  exchange(managed, 300);
  exchange(pinned, 7);
  exchange(pageable, 50000);
  open_previous(device, rank, ranks);
  DO(cudaFree(managed));
  DO(cudaFreeAsync(pooled, NULL));
  DO(cudaFree(device));
  DO(cudaFreeHost(pinned));
  free(pageable);
  MPI_Finalize();
  return 0;
}
