/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a successful call means for the record: the actions that calls.tsv names. */
#ifndef TOPOSEAT_ACTIONS_H
#define TOPOSEAT_ACTIONS_H

#include "count.h"

/* An array of counts whose element type depends on the call (int, or MPI_Count in `_c` calls). */
struct tps_counts {
  const void *values;
  size_t width;
};
#define COUNTS(array) ((struct tps_counts){(array), sizeof *(array)})

/* ---- point-to-point ---- */

TPS_FAST void tps__on_send(const void *buffer, abi_count count, tps_word datatype, int dest,
                           tps_word comm) {
  if (tps__unlikely(dest < 0)) /* MPI_PROC_NULL */
    return;
  uint64_t bytes = tps__bytes(count, datatype);
  const struct tps_comm *over = tps__comm_of(comm, false);
  if (tps__unlikely(over == NULL)) {
    tps__lost(bytes);
    return;
  }
  tps__count(over->peers, dest, TPS_POINT_TO_POINT, tps__space_of(buffer, bytes), bytes);
}

/* Receives are counted by their sender; here they only tell what memory the time goes to. */
static inline void tps__on_receive(const void *buffer, abi_count count) {
  if (tps__likely(tps__gpu() == TPS_GPU_NONE) || count <= 0)
    return;
  int device = tps__gpu_device(buffer);
  if (device == TPS_NO_DEVICE)
    return;
  if (tps__thread.capture != NULL)
    tps__capture_device(device, 0);
  else
    tps__use_device(device, 0);
}

/* ---- persistent requests ---- */

void tps__on_start(abi_handle request);
void tps__on_startall(int count, const abi_handle *requests);
void tps__on_request_gone(abi_handle request);

/* ---- nonblocking calls of files (files.c) ---- */

void tps__on_file_request(abi_handle request);
/* Whether a request that is about to be waited for, or tested, is of a file. */
bool tps__files_awaited(int count, const abi_handle *requests);
/* After it: forgets those that are complete; the time is of files unless others were waited for. */
void tps__files_waited(const abi_handle *requests, uint64_t spent);
void tps__file_request_gone(abi_handle request);

/* ---- processes beside MPI_COMM_WORLD ---- */

/* What is started so is not recorded: the record says that there is more. */
static inline void tps__on_spawn(void) {
  __atomic_fetch_or(&tps__process.header->flags, (uint32_t)TPS_FLAG_SPAWNS, __ATOMIC_RELAXED);
}

/* ---- one-sided: `rank` is a rank of the window's group ---- */

void tps__on_put(const void *origin, abi_count count, tps_word datatype, int rank, tps_word win);
void tps__on_get(const void *origin, abi_count count, tps_word datatype, int rank, tps_word win);
/* Data goes both ways: origin buffer to the target, old contents back into the result buffer. */
void tps__on_exchange(const void *origin, abi_count count, tps_word datatype, const void *result,
                      abi_count result_count, tps_word result_type, int rank, tps_word win,
                      tps_word operation);

/* ---- collectives ---- */

void tps__on_barrier(tps_word comm);
void tps__on_bcast(const void *buffer, abi_count count, tps_word datatype, int root, tps_word comm);
/* gather, allgather, alltoall: one block per rank, or per pair. root = TPS_NO_ROOT where there is
 * none */
void tps__on_blocks(enum tps_operation operation, const void *sendbuf, abi_count sendcount,
                    tps_word sendtype, const void *recvbuf, abi_count recvcount, tps_word recvtype,
                    int root, tps_word comm);
/* gatherv, allgatherv */
void tps__on_gatherv(enum tps_operation operation, const void *sendbuf, abi_count sendcount,
                     tps_word sendtype, const void *recvbuf, struct tps_counts recvcounts,
                     tps_word recvtype, int root, tps_word comm);
void tps__on_scatter(const void *sendbuf, abi_count sendcount, tps_word sendtype,
                     const void *recvbuf, abi_count recvcount, tps_word recvtype, int root,
                     tps_word comm);
void tps__on_scatterv(const void *sendbuf, struct tps_counts sendcounts, tps_word sendtype,
                      const void *recvbuf, abi_count recvcount, tps_word recvtype, int root,
                      tps_word comm);
void tps__on_alltoallv(const void *sendbuf, struct tps_counts sendcounts, tps_word sendtype,
                       const void *recvbuf, struct tps_counts recvcounts, tps_word recvtype,
                       tps_word comm);
void tps__on_alltoallw(const void *sendbuf, struct tps_counts sendcounts,
                       const abi_handle *sendtypes, const void *recvbuf,
                       struct tps_counts recvcounts, const abi_handle *recvtypes, tps_word comm);
/* reduce, allreduce, scan, exscan, reduce_scatter_block */
void tps__on_reduce(enum tps_operation operation, const void *sendbuf, const void *recvbuf,
                    abi_count count, tps_word datatype, int root, tps_word comm);
void tps__on_reduce_scatter(const void *sendbuf, const void *recvbuf, struct tps_counts recvcounts,
                            tps_word datatype, tps_word comm);
/* neighbour collectives: exact edges by the communicator's topology, and one event */
void tps__on_neighbor(enum tps_operation operation, const void *sendbuf, abi_count sendcount,
                      tps_word sendtype, tps_word comm);
void tps__on_neighbor_alltoallv(const void *sendbuf, struct tps_counts sendcounts,
                                tps_word sendtype, tps_word comm);
void tps__on_neighbor_alltoallw(const void *sendbuf, struct tps_counts sendcounts,
                                const abi_handle *sendtypes, tps_word comm);

#endif
