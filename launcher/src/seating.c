/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "seating.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tps_seating_is_here(const struct tps_placement *placement, const struct tps_identity *identity,
                         const char *host) {
  struct tps_identity own = *identity;
  own.node = NULL;
  if (tps_identity_is_host(&own, host) || !tps_identity_is_host(identity, host))
    return tps_identity_is_host(&own, host);
  for (size_t i = 0; i < placement->seat_count; i++)
    if (tps_identity_is_host(&own, placement->seats[i].host))
      return false;
  return true;
}

/* The rank of a job whose launcher tells only local ranks: that of the seat with this local rank on
   this node, if the placement has just one such. */
static void complete_rank(const struct tps_placement *placement, struct tps_identity *identity) {
  long found = -1;
  for (size_t i = 0; i < placement->seat_count; i++) {
    const struct tps_seat *seat = &placement->seats[i];
    if ((long)seat->local_rank != identity->local_rank ||
        !tps_seating_is_here(placement, identity, seat->host))
      continue;
    if (found >= 0)
      return;
    found = (long)seat->rank;
  }
  identity->rank = found;
  identity->rank_source = "the local rank and the placement";
}

/* The rank that a world of other nodes than the placement's has here, which is no mismatch where
   nodes have left: what they leave keeps its order. */
static bool complete_elastic(const struct tps_placement *placement, struct tps_identity *identity,
                             struct tps_messages *messages) {
  long world_rank = identity->rank, size = identity->size;
  const struct tps_seat *seat = tps_placement_seat_of(placement, world_rank);
  bool is_whole = size == (long)placement->ranks;
  if (is_whole && seat != NULL && tps_seating_is_here(placement, identity, seat->host))
    return true;
  complete_rank(placement, identity);
  if (identity->rank < 0) {
    identity->rank = world_rank;
    tps_refuse(messages, "; started without placement",
               "the placement has no seat for local rank %ld of host %s", identity->local_rank,
               identity->host);
    return false;
  }
  identity->size = (long)placement->ranks;
  messages->speaks = identity->local_rank == 0;
  if (is_whole)
    tps_warn(messages, "rank %ld of the placement is rank %ld of this world", identity->rank,
             world_rank);
  else
    tps_note(messages, "rank %ld of the placement is rank %ld in a world of %ld", identity->rank,
             world_rank, size);
  return true;
}

static void complete(const struct tps_placement *placement, struct tps_identity *identity) {
  if (identity->rank < 0 && identity->local_rank >= 0)
    complete_rank(placement, identity);
  if (identity->rank < 0 && identity->local_rank < 0 && placement->ranks == 1) {
    identity->rank = identity->local_rank = 0;
    identity->rank_source = identity->local_rank_source = "the only rank of the placement";
  }
}

static bool check_job(const struct tps_placement *placement, const struct tps_identity *identity,
                      struct tps_messages *messages) {
  if (identity->rank < 0) {
    tps_refuse(messages, "; started without placement, use --local-rank-env",
               "no variable of a launcher states the rank (of %zu in the placement)",
               placement->ranks);
    return false;
  }
  bool fits = identity->size < 0
                  ? (size_t)identity->rank < placement->ranks
                  : (size_t)identity->size == placement->ranks && identity->rank < identity->size;
  if (!fits)
    tps_refuse(messages, "; started without placement",
               "the placement is for %zu ranks and this is rank %ld of %ld", placement->ranks,
               identity->rank, identity->size);
  return fits;
}

/* The number of smaller ranks on the node, as MPI libraries count. */
static bool count_smaller(const struct tps_meeting *meeting, struct tps_identity *identity) {
  if (meeting == NULL || !meeting->complete)
    return false;
  identity->local_rank = 0;
  for (size_t i = 0; i < meeting->neighbour_count; i++)
    identity->local_rank += meeting->neighbours[i].rank < identity->rank;
  identity->local_rank_source = "meeting the other ranks of the node";
  return true;
}

/* The ranks of a node whose launcher tells no local ranks meet for that alone. */
static bool meet(long expected, struct tps_identity *identity) {
  struct tps_identity own = *identity;
  struct tps_meeting meeting;
  struct tps_text job;
  own.local_size = expected;
  tps_text_init(&job);
  bool met = false;
  if (tps_identity_job(&job)) {
    tps_meeting_join(&meeting, job.data, NULL, &own, NULL, NULL);
    met = count_smaller(&meeting, identity);
    tps_meeting_leave(&meeting);
  }
  tps_text_free(&job);
  return met;
}

static void find_local_rank(const struct tps_placement *placement, const struct tps_seat *seat,
                            struct tps_identity *identity, const struct tps_meeting *meeting,
                            struct tps_messages *messages) {
  if (count_smaller(meeting, identity) ||
      meet((long)tps_placement_count_on(placement, seat->host), identity))
    return;
  tps_warn(messages,
           "no variable of a launcher states the local rank: taken from the placement (%lu)",
           seat->local_rank);
  identity->local_rank = (long)seat->local_rank;
  identity->local_rank_source = "the placement";
}

const struct tps_seat **tps_seating_locals(const struct tps_placement *placement,
                                           const struct tps_seat *seat,
                                           const struct tps_meeting *meeting) {
  if (meeting == NULL || !meeting->complete)
    return NULL;
  size_t count = meeting->neighbour_count;
  const struct tps_seat **seats = (const struct tps_seat **)tps_allocate(count, sizeof *seats);
  for (size_t i = 0; i < count; i++) {
    const struct tps_neighbour *one = &meeting->neighbours[i];
    const struct tps_seat *other = tps_placement_seat_of(placement, one->rank);
    bool known = other != NULL && one->local_rank >= 0 && (size_t)one->local_rank < count &&
                 seats[one->local_rank] == NULL && strcmp(other->host, seat->host) == 0;
    if (!known) {
      free((void *)seats);
      return NULL;
    }
    seats[one->local_rank] = other;
  }
  return seats;
}

/* Whether it matters that the program's local rank is not the seat's: under permute the program
   picks its device by it, which is right if the list can be made for the launcher's numbers. */
static bool check_local_rank(const struct tps_placement *placement, const struct tps_seat *seat,
                             const struct tps_identity *identity, enum tps_mode mode,
                             const struct tps_meeting *meeting, struct tps_messages *messages) {
  if (identity->local_rank == (long)seat->local_rank)
    return true;
  const struct tps_seat **locals = tps_seating_locals(placement, seat, meeting);
  bool numbered = locals != NULL;
  free((void *)locals);
  if (numbered && mode != TPS_CPU_ONLY)
    return true;
  bool matters = mode == TPS_PERMUTE || mode == TPS_CPU_ONLY;
  /* Open MPI 5 numbers local ranks by core where it maps by core, not by rank. */
  bool openmpi = strcmp(identity->launcher, "openmpi") == 0;
  if (!matters) {
    tps_warn(messages, "local rank %ld of this job is local rank %lu in the placement",
             identity->local_rank, seat->local_rank);
    return true;
  }
  tps_refuse(messages,
             openmpi ? "; started without placement: use --visibility mask, or order the ranks of "
                       "a node as the placement does (mpirun --rank-by slot)"
                     : "; started without placement: use --visibility mask, or order the ranks of "
                       "a node as the placement does",
             "local rank %ld of this job is local rank %lu in the placement", identity->local_rank,
             seat->local_rank);
  return false;
}

const struct tps_seat *tps_seating_find(const struct tps_placement *placement,
                                        struct tps_identity *identity, enum tps_mode mode,
                                        const struct tps_meeting *meeting,
                                        struct tps_messages *messages) {
  bool is_elastic = identity->elastic && identity->rank >= 0 && identity->local_rank >= 0;
  if (is_elastic && !complete_elastic(placement, identity, messages))
    return NULL;
  complete(placement, identity);
  messages->speaks = identity->local_rank <= 0;
  if (identity->rank >= 0)
    snprintf(messages->rank, sizeof messages->rank, "rank %ld: ", identity->rank);
  if (!check_job(placement, identity, messages))
    return NULL;
  const struct tps_seat *seat = tps_placement_seat_of(placement, identity->rank);
  if (seat == NULL || !tps_seating_is_here(placement, identity, seat->host)) {
    tps_refuse(messages, "; started without placement (map ranks to nodes as the placement does)",
               "runs on host %s and is placed on %s%s", identity->host,
               seat == NULL ? "another" : "host ", seat == NULL ? "" : seat->host);
    return NULL;
  }
  if (identity->local_rank < 0)
    find_local_rank(placement, seat, identity, meeting, messages);
  messages->speaks = identity->local_rank == 0;
  long here = (long)tps_placement_count_on(placement, seat->host);
  if (identity->local_size >= 0 && identity->local_size != here)
    tps_refuse(messages, NULL, "%ld ranks run on host %s and %ld are placed on it",
               identity->local_size, identity->host, here);
  return check_local_rank(placement, seat, identity, mode, meeting, messages) ? seat : NULL;
}
