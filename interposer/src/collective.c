/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Collectives: one event per call. Which messages a call makes depends on the algorithm that the
 * MPI chooses, so events are expanded offline by a stated model (profile/records).
 * Where the MPI standard itself fixes what each rank sends to which, the messages are counted here
 * as well: alltoallv, alltoallw and scatterv (at the root), without a rank's own block, and the
 * neighbour collectives, with it.
 */
#include "actions.h"

static bool in_place(const void *buffer) {
  return (uintptr_t)buffer == (uintptr_t)(intptr_t)ABI_IN_PLACE;
}

static abi_count count_at(struct tps_counts counts, int index) {
  return counts.width == sizeof(int) ? ((const int *)counts.values)[index]
                                     : ((const abi_count *)counts.values)[index];
}

static abi_count count_sum(struct tps_counts counts, int length) {
  abi_count sum = 0;
  for (int i = 0; i < length; ++i)
    sum += count_at(counts, i);
  return sum;
}

/* World rank of `root`, or TPS_NO_ROOT (none; MPI_ROOT, MPI_PROC_NULL of inter-communicators). */
static int32_t world_root(const struct tps_comm *comm, int root) {
  if (root < 0 || root >= comm->peers->size)
    return TPS_NO_ROOT;
  int world = comm->peers->identity ? root : comm->peers->world[root];
  return world < 0 ? TPS_NO_ROOT : world;
}

static void add_elements(const struct tps_comm *comm, enum tps_operation operation, int root,
                         const void *buffer, uint64_t bytes, uint64_t element) {
  struct tps_event_shape shape = {.communicator = comm->peers->record_id,
                                  .operation = (uint16_t)operation,
                                  .space = (uint8_t)tps__space_of(buffer, bytes),
                                  .root = world_root(comm, root),
                                  .bytes = bytes,
                                  .element = element > UINT32_MAX ? 0 : (uint32_t)element};
  if (tps__thread.capture != NULL)
    tps__capture_event(&shape);
  else
    tps__event_add(&shape);
}

static void add_event(const struct tps_comm *comm, enum tps_operation operation, int root,
                      const void *buffer, uint64_t bytes) {
  add_elements(comm, operation, root, buffer, bytes, 0);
}

/* A vector that the MPI may cut between its elements. */
static void add_vector(const struct tps_comm *comm, enum tps_operation operation, int root,
                       const void *buffer, abi_count count, tps_word datatype) {
  uint64_t bytes = tps__bytes(count, datatype);
  add_elements(comm, operation, root, buffer, bytes, count > 1 ? tps__bytes(1, datatype) : bytes);
}

static struct tps_comm *find(tps_word comm) {
  struct tps_comm *over = tps__comm_of(comm, false);
  if (over == NULL)
    tps__bump(&tps__thread.segment->header->lost_events, 1);
  return over;
}

static bool is_root(const struct tps_comm *comm, int root) {
  return comm->peers->inter ? root == ABI_ROOT : root == comm->my_rank;
}

/* In rooted collectives over an inter-communicator, the root's group but the root does nothing. */
static bool takes_part(const struct tps_comm *comm, int root) {
  return !comm->peers->inter || root != ABI_PROC_NULL;
}

void tps__on_barrier(tps_word comm) {
  const struct tps_comm *over = find(comm);
  if (over != NULL)
    add_event(over, TPS_OP_barrier, TPS_NO_ROOT, NULL, 0);
}

void tps__on_bcast(const void *buffer, abi_count count, tps_word datatype, int root,
                   tps_word comm) {
  const struct tps_comm *over = find(comm);
  if (over != NULL && takes_part(over, root))
    add_vector(over, TPS_OP_bcast, root, buffer, count, datatype);
}

void tps__on_blocks(enum tps_operation operation, const void *sendbuf, abi_count sendcount,
                    tps_word sendtype, const void *recvbuf, abi_count recvcount, tps_word recvtype,
                    int root, tps_word comm) {
  const struct tps_comm *over = find(comm);
  if (over == NULL || (operation == TPS_OP_gather && !takes_part(over, root)))
    return;
  bool receiver_only = over->peers->inter && operation == TPS_OP_gather && is_root(over, root);
  if (in_place(sendbuf) || receiver_only)
    add_event(over, operation, root, recvbuf, tps__bytes(recvcount, recvtype));
  else
    add_event(over, operation, root, sendbuf, tps__bytes(sendcount, sendtype));
}

void tps__on_gatherv(enum tps_operation operation, const void *sendbuf, abi_count sendcount,
                     tps_word sendtype, const void *recvbuf, struct tps_counts recvcounts,
                     tps_word recvtype, int root, tps_word comm) {
  const struct tps_comm *over = find(comm);
  if (over == NULL || (operation == TPS_OP_gatherv && !takes_part(over, root)))
    return;
  bool receiver_only = over->peers->inter && operation == TPS_OP_gatherv && is_root(over, root);
  if (receiver_only)
    add_event(over, operation, root, recvbuf, 0);
  else if (in_place(sendbuf))
    add_event(over, operation, root, recvbuf,
              tps__bytes(count_at(recvcounts, over->my_rank), recvtype));
  else
    add_event(over, operation, root, sendbuf, tps__bytes(sendcount, sendtype));
}

void tps__on_scatter(const void *sendbuf, abi_count sendcount, tps_word sendtype,
                     const void *recvbuf, abi_count recvcount, tps_word recvtype, int root,
                     tps_word comm) {
  const struct tps_comm *over = find(comm);
  if (over == NULL || !takes_part(over, root))
    return;
  if (is_root(over, root))
    add_event(over, TPS_OP_scatter, root, sendbuf, tps__bytes(sendcount, sendtype));
  else
    add_event(over, TPS_OP_scatter, root, recvbuf, tps__bytes(recvcount, recvtype));
}

/* Counts what this rank sends to every peer, without its own block. Returns the whole sum. */
static uint64_t count_blocks(const struct tps_comm *comm, const void *buffer,
                             struct tps_counts counts, tps_word one_type, const abi_handle *types) {
  uint64_t sum = 0;
  int space = tps__look_at(buffer);
  for (int peer = 0; peer < comm->peers->size; ++peer) {
    abi_count count = count_at(counts, peer);
    if (count <= 0)
      continue;
    uint64_t bytes = tps__bytes(count, types != NULL ? ABI_WORD(types[peer]) : one_type);
    sum += bytes;
    if (bytes > 0 && (comm->peers->inter || peer != comm->my_rank))
      tps__count(comm->peers, peer, TPS_COLLECTIVE, space, bytes);
  }
  return sum;
}

void tps__on_scatterv(const void *sendbuf, struct tps_counts sendcounts, tps_word sendtype,
                      const void *recvbuf, abi_count recvcount, tps_word recvtype, int root,
                      tps_word comm) {
  const struct tps_comm *over = find(comm);
  if (over == NULL || !takes_part(over, root))
    return;
  if (is_root(over, root))
    add_event(over, TPS_OP_scatterv, root, sendbuf,
              count_blocks(over, sendbuf, sendcounts, sendtype, NULL));
  else
    add_event(over, TPS_OP_scatterv, root, recvbuf, tps__bytes(recvcount, recvtype));
}

static void on_alltoall_blocks(enum tps_operation operation, const void *sendbuf,
                               struct tps_counts counts, tps_word one_type, const abi_handle *types,
                               tps_word comm) {
  const struct tps_comm *over = find(comm);
  if (over != NULL)
    add_event(over, operation, TPS_NO_ROOT, sendbuf,
              count_blocks(over, sendbuf, counts, one_type, types));
}

/* In place, what a rank receives from a peer is what it sent there: the counts must agree. */
void tps__on_alltoallv(const void *sendbuf, struct tps_counts sendcounts, tps_word sendtype,
                       const void *recvbuf, struct tps_counts recvcounts, tps_word recvtype,
                       tps_word comm) {
  bool placed = in_place(sendbuf);
  on_alltoall_blocks(TPS_OP_alltoallv, placed ? recvbuf : sendbuf, placed ? recvcounts : sendcounts,
                     placed ? recvtype : sendtype, NULL, comm);
}

void tps__on_alltoallw(const void *sendbuf, struct tps_counts sendcounts,
                       const abi_handle *sendtypes, const void *recvbuf,
                       struct tps_counts recvcounts, const abi_handle *recvtypes, tps_word comm) {
  bool placed = in_place(sendbuf);
  on_alltoall_blocks(TPS_OP_alltoallw, placed ? recvbuf : sendbuf, placed ? recvcounts : sendcounts,
                     0, placed ? recvtypes : sendtypes, comm);
}

void tps__on_reduce(enum tps_operation operation, const void *sendbuf, const void *recvbuf,
                    abi_count count, tps_word datatype, int root, tps_word comm) {
  const struct tps_comm *over = find(comm);
  if (over == NULL || (operation == TPS_OP_reduce && !takes_part(over, root)))
    return;
  add_vector(over, operation, root, in_place(sendbuf) ? recvbuf : sendbuf, count, datatype);
}

void tps__on_reduce_scatter(const void *sendbuf, const void *recvbuf, struct tps_counts recvcounts,
                            tps_word datatype, tps_word comm) {
  const struct tps_comm *over = find(comm);
  if (over != NULL)
    add_vector(over, TPS_OP_reduce_scatter, TPS_NO_ROOT, in_place(sendbuf) ? recvbuf : sendbuf,
               count_sum(recvcounts, over->local_size), datatype);
}

/* Sums what goes to each neighbour: `counts` with one type or several, or one `block` to each. */
static void on_neighbours(enum tps_operation operation, const void *sendbuf, uint64_t block,
                          const struct tps_counts *counts, tps_word one_type,
                          const abi_handle *types, tps_word comm) {
  struct tps_comm *over = find(comm);
  if (over == NULL)
    return;
  if (!tps__comm_neighbours(over)) {
    tps__bump(&tps__thread.segment->header->lost_events, 1);
    return;
  }
  uint64_t sum = 0;
  int space = tps__look_at(sendbuf);
  for (int i = 0; i < over->out_degree; ++i) {
    uint64_t bytes = block;
    if (counts != NULL)
      bytes = tps__bytes(count_at(*counts, i), types != NULL ? ABI_WORD(types[i]) : one_type);
    if (over->out[i] < 0)
      continue;
    sum += bytes;
    tps__count(over->peers, over->out[i], TPS_COLLECTIVE, space, bytes);
  }
  add_event(over, operation, TPS_NO_ROOT, sendbuf, counts != NULL ? sum : block);
}

void tps__on_neighbor(enum tps_operation operation, const void *sendbuf, abi_count sendcount,
                      tps_word sendtype, tps_word comm) {
  on_neighbours(operation, sendbuf, tps__bytes(sendcount, sendtype), NULL, 0, NULL, comm);
}

void tps__on_neighbor_alltoallv(const void *sendbuf, struct tps_counts sendcounts,
                                tps_word sendtype, tps_word comm) {
  on_neighbours(TPS_OP_neighbor_alltoallv, sendbuf, 0, &sendcounts, sendtype, NULL, comm);
}

void tps__on_neighbor_alltoallw(const void *sendbuf, struct tps_counts sendcounts,
                                const abi_handle *sendtypes, tps_word comm) {
  on_neighbours(TPS_OP_neighbor_alltoallw, sendbuf, 0, &sendcounts, 0, sendtypes, comm);
}
