/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where processes of one node find each other: a socket of the node's network namespace that has no
   file, so that nothing can be left behind. Whoever takes its name first leads; the others are its
   guests. The kernel tells both sides at once when the other one ends. */
#ifndef TOPOSEAT_LAUNCHER_MEETING_POINT_H
#define TOPOSEAT_LAUNCHER_MEETING_POINT_H

struct tps_point {
  int listener; /* the leader's, else -1 */
  int leader;   /* a guest's connection, else -1 */
};

/* Takes part in the meeting that `words` and `node` name together. Neither end is there if another
   user's process holds the name, or no socket can be had. */
struct tps_point tps_point_join(const char *words, const char *node);

/* The connection of a guest that has come, not blocking; -1: none, or it was a stranger. */
int tps_point_accept(int listener);

#endif
