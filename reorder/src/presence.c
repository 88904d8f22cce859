/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "presence.h"

#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "home.h"
#include "identity.h"
#include "meeting_point.h"

enum {
  GATHER_MS = 10000, /* MPI_Init returns at about the same time everywhere */
  HOME_MS = 10000,
  DECIDE_MS = 120000, /* home decides long before */
  FOLLOW_MS = 180000, /* a leader decides long before */
  FRAME_MS = 2000,    /* between processes of one node, or of what fits into a socket's buffer */
  MAX_WORDS = 600,
};

struct guest {
  int peer; /* -1: it has ended, or said something else */
  bool heard;
};

struct leader {
  const struct tpr_world *world;
  int listener;
  int home; /* -1: this process decides */
  struct guest *guests;
  size_t count;
  bool *is_here; /* by rank */
  int here;
  bool failed;      /* somebody is of another world, a rank is there twice, or home has gone */
  const char *vote; /* of every rank */
  bool speaks;      /* for the job, if not all are there */
  int missing;
};

static const char UNHEARD[] = "the ranks of this job cannot all be heard";

/* ---- which job this is ---- */

static const char *home_words(void) {
  const char *words = tps_getenv("TOPOSEAT_HOME");
  return words != NULL ? words : tps_getenv("TOPOSEAT_PROFILE_HOME");
}

/* Where the ranks of several nodes are counted. */
static bool has_home(const struct tpr_world *world) {
  return home_words() != NULL && !world->spawned;
}

/* The launcher's process that MPI talks to: one on each node, and another one for each world. 0:
   not known. */
static long pmi_server(void) {
  unsigned long number = 0;
  struct ucred server;
  socklen_t size = sizeof server;
  bool known = tps_parse_number(tps_getenv("PMI_FD"), INT_MAX, &number) &&
               getsockopt((int)number, SOL_SOCKET, SO_PEERCRED, &server, &size) == 0;
  return known ? (long)server.pid : 0;
}

/* What tells this world from all others on the node; and what it is called on all nodes. */
static bool name_world(char *here, char *everywhere, size_t size) {
  struct tps_text job;
  tps_text_init(&job);
  bool known = tps_identity_job(&job);
  long server = pmi_server();
  const char *home = home_words();
  snprintf(everywhere, size, "%s", job.data);
  snprintf(here, size, "reorder %s %ld %s", job.data, server, home == NULL ? "" : home);
  tps_text_free(&job);
  return known || server > 0 || home != NULL;
}

/* ---- the leader ---- */

static void end_guest(struct guest *guest) {
  close(guest->peer);
  guest->peer = -1;
}

static void accept_guest(struct leader *leader) {
  int peer = tps_point_accept(leader->listener);
  if (peer < 0) {
    poll(NULL, 0, 1); /* a stranger, or there are no more file descriptors */
    return;
  }
  struct guest *grown = realloc(leader->guests, (leader->count + 1) * sizeof *grown);
  if (grown == NULL) {
    close(peer);
    return;
  }
  leader->guests = grown;
  leader->guests[leader->count++] = (struct guest){.peer = peer};
}

static void lose_home(struct leader *leader) {
  close(leader->home);
  leader->home = -1;
  leader->failed = true;
}

/* A rank is here; home is told. */
static void count(struct leader *leader, uint32_t rank) {
  if (rank >= (uint32_t)leader->world->size || leader->is_here[rank]) {
    leader->failed = true;
    return;
  }
  leader->is_here[rank] = true;
  leader->here += 1;
  if (leader->home >= 0 && !tps_send_frame(leader->home, TPS_PRESENT, rank, leader->vote,
                                           strlen(leader->vote), tps_now_ms() + FRAME_MS))
    lose_home(leader);
}

static void hear(struct leader *leader, struct guest *guest) {
  struct tps_frame frame;
  char vote[MAX_WORDS] = "";
  long deadline_ms = tps_now_ms() + FRAME_MS;
  guest->heard = tps_receive_header(guest->peer, &frame, deadline_ms) &&
                 frame.kind == TPS_PRESENT && frame.length < sizeof vote &&
                 tps_receive_bytes(guest->peer, vote, (size_t)frame.length, deadline_ms);
  if (!guest->heard) {
    end_guest(guest);
    return;
  }
  if (strcmp(vote, leader->vote) == 0)
    count(leader, frame.number);
  else
    leader->failed = true;
}

/* Whether home has decided. */
static bool hear_home(struct leader *leader, bool *all) {
  struct tps_frame frame;
  if (!tps_receive_header(leader->home, &frame, tps_now_ms() + FRAME_MS) || frame.length != 0 ||
      (frame.kind != TPS_GO && frame.kind != TPS_STOP)) {
    lose_home(leader);
    return false;
  }
  *all = frame.kind == TPS_GO;
  leader->speaks = frame.number != 0;
  leader->failed = frame.number == TPS_RANK_UNKNOWN;
  leader->missing = leader->failed ? 0 : (int)frame.number;
  return true;
}

static void attend(struct leader *leader, const struct pollfd *ready, size_t guests) {
  for (size_t i = 0; i < guests; ++i)
    if (ready[i + 2].revents != 0)
      hear(leader, &leader->guests[i]);
  if (ready[0].revents != 0)
    accept_guest(leader);
}

/* Until home has decided; without home until all ranks are here, or time is up. */
static bool gather(struct leader *leader) {
  bool all = false;
  bool told = false;
  bool asks = leader->home >= 0;
  long left = asks ? DECIDE_MS : GATHER_MS;
  long deadline_ms = tps_now_ms() + left;
  for (; !told && !leader->failed && left > 0; left = deadline_ms - tps_now_ms()) {
    size_t guests = leader->count;
    if (!asks && leader->here == leader->world->size)
      return true;
    struct pollfd *ready = malloc((guests + 2) * sizeof *ready);
    if (ready == NULL)
      break;
    ready[0] = (struct pollfd){.fd = leader->listener, .events = POLLIN};
    ready[1] = (struct pollfd){.fd = leader->home, .events = POLLIN};
    for (size_t i = 0; i < guests; ++i)
      ready[i + 2] = (struct pollfd){.fd = leader->guests[i].heard ? -1 : leader->guests[i].peer,
                                     .events = POLLIN};
    if (poll(ready, guests + 2, (int)left) > 0) {
      attend(leader, ready, guests);
      if (leader->home >= 0 && ready[1].revents != 0)
        told = hear_home(leader, &all);
    }
    free(ready);
  }
  if (!asks && !leader->failed)
    leader->missing = leader->world->size - leader->here;
  if (!told)
    leader->speaks |= leader->is_here[0];
  return all;
}

static void answer_all(struct leader *leader, bool all) {
  shutdown(leader->listener, SHUT_RDWR);
  close(leader->listener);
  for (size_t i = 0; i < leader->count; ++i)
    if (leader->guests[i].peer >= 0) {
      tps_send_frame(leader->guests[i].peer, all ? TPS_GO : TPS_STOP, 0, NULL, 0,
                     tps_now_ms() + FRAME_MS);
      end_guest(&leader->guests[i]);
    }
  if (leader->home >= 0)
    close(leader->home);
  free(leader->guests);
  free(leader->is_here);
}

/* How many ranks of the world are on this node by its launcher; -1: it does not say. */
static long ranks_here(void) {
  struct tps_messages messages;
  struct tps_identity identity;
  tps_messages_init(&messages);
  messages.silent = true;
  tps_identity_detect(&identity, NULL, &messages);
  tps_text_free(&messages.lines);
  return identity.local_size;
}

/* With `here` of the world's ranks on this node, -1: not known. */
static bool lead(const struct tpr_world *world, long here, int listener, const char *vote,
                 char *why, size_t size) {
  struct leader leader = {.world = world, .listener = listener, .home = -1};
  bool asks = here != world->size && has_home(world);
  bool all = false;
  leader.is_here = calloc((size_t)world->size, sizeof *leader.is_here);
  leader.vote = vote;
  leader.speaks = here == world->size;
  if (asks)
    leader.home = tps_home_connect(home_words(), NULL, 0, tps_now_ms() + HOME_MS);
  if (asks && leader.home < 0) {
    if (world->rank == 0)
      snprintf(why, size, "%s", UNHEARD);
  } else if (leader.is_here != NULL) {
    count(&leader, (uint32_t)world->rank);
    all = gather(&leader);
    if (leader.missing > 0 && leader.speaks)
      snprintf(why, size,
               "%d of %d ranks are without this library (LD_PRELOAD is dropped on the way, or the "
               "program is static or set-uid)",
               leader.missing, world->size);
    else if (leader.failed && leader.speaks)
      snprintf(why, size, "%s", UNHEARD);
  }
  answer_all(&leader, all);
  return all;
}

/* ---- both ---- */

static bool follow(const struct tpr_world *world, int leader, const char *vote, char *why,
                   size_t size) {
  struct tps_frame frame;
  bool told = tps_send_frame(leader, TPS_PRESENT, (uint32_t)world->rank, vote, strlen(vote),
                             tps_now_ms() + FRAME_MS) &&
              tps_receive_header(leader, &frame, tps_now_ms() + FOLLOW_MS);
  close(leader);
  if (!told && world->rank == 0) /* the leader has not heard it, and does not speak for it */
    snprintf(why, size, "%s", UNHEARD);
  return told && frame.kind == TPS_GO;
}

static jmp_buf without_memory;
static void give_up(void) { longjmp(without_memory, 1); }

bool tpr__all_present(const struct tpr_world *world, char *why, size_t size) {
  char here[MAX_WORDS];
  char everywhere[MAX_WORDS - 16];
  char vote[MAX_WORDS];
  why[0] = '\0';
  tps_out_of_memory = give_up;
  if (setjmp(without_memory) != 0) /* before anybody is met */
    return false;
  long local = ranks_here();
  if (!name_world(here, everywhere, sizeof everywhere)) {
    if (world->rank == 0)
      snprintf(why, size, "no variable tells this job from others on this node");
    return false;
  }
  if (local >= 0 && local < world->size && !has_home(world)) { /* nobody could hear all */
    if (world->rank == 0)
      snprintf(
          why, size,
          "this job has several nodes, and 'toposeat run' did not start it, which counts them");
    return false;
  }
  snprintf(vote, sizeof vote, "%d %s", world->size, everywhere);
  struct tps_point point = tps_point_join(here, "");
  if (point.leader >= 0)
    return follow(world, point.leader, vote, why, size);
  if (point.listener >= 0)
    return lead(world, local, point.listener, vote, why, size);
  snprintf(why, size, "this node's ranks cannot meet: no socket, or another user holds its name");
  return false;
}
