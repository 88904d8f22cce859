/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The ranks of a node meet, and one of them speaks for all with home: no rank starts before every
   rank of the job is known to have its seat. They meet as meeting_point.h says. */
#ifndef TOPOSEAT_LAUNCHER_MEETING_H
#define TOPOSEAT_LAUNCHER_MEETING_H

#include "home.h"
#include "identity.h"
#include "text.h"

enum tps_decision { TPS_START, TPS_END };

struct tps_neighbour {
  long rank;       /* -1: not known; so below */
  long local_rank; /* as its launcher numbers it */
};

struct tps_meeting {
  bool at_home;          /* home was reached */
  char *address;         /* words for tps_home_connect that lead there at once, NULL without home */
  struct tps_text seats; /* the placement file */
  bool has_seats;        /* home sent it, or the leader could read it */
  struct tps_neighbour *neighbours; /* the ranks of this node, this one included */
  size_t neighbour_count;
  bool complete; /* no rank of this node is missing among them */

  int leader;   /* a member's connection, else -1 */
  int listener; /* the leader's, else -1 */
  int home;     /* the leader's connection, -1 without */
  struct tps_guest *guests;
  size_t guest_count;
  bool refused; /* some rank of this node cannot be seated */
};

/* How many ranks are to be on this node by the placement in `text`; -1 if it cannot be read. */
typedef long (*tps_count_here)(const struct tps_text *text, const void *context);

/* Joins the ranks of this node, and receives the placement. `home` may also be what else tells the
   job from others: nobody is at home then; without `placement_path` too, the ranks only meet.
   Returns within half a minute beyond the patience of home, whatever happens; alone and with no
   placement in the worst case. `count_here` is asked by the leader where the launcher does not tell
   the number of ranks on the node. */
void tps_meeting_join(struct tps_meeting *meeting, const char *home, const char *placement_path,
                      const struct tps_identity *identity, tps_count_here count_here,
                      const void *context);

/* Tells whether this rank can have its seat and waits for the decision of home; without home for
   that of the node's ranks. `at_home` may become false here. */
enum tps_decision tps_meeting_decide(struct tps_meeting *meeting, long rank, bool seated,
                                     const struct tps_text *report);

/* Nothing of the meeting may be used afterwards. */
void tps_meeting_leave(struct tps_meeting *meeting);

#endif
