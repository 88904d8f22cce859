/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where a rank keeps its record, and how records come home from nodes that do not share a folder.

   The process that starts a job makes a folder and, in it, a file named by the run: a node that
   sees the file sees that folder, and not just another one of the same path. All other nodes keep
   records in a folder of their own, 0700, swept like the others of toposeat (model/job_folder.py):

       rank-R-PID.tpsrec, rank-R-PID-tN.tpsrec   records (interposer/include/toposeat_record.h)
       rank-R-PID.tpstorch                       records of PyTorch (launch/python_hook)
       rank-R-PID.host                           rank R was started here; holds the host's name
       rank-R-PID.left                           this process counts no more

   The last process of a node to leave sends all of them home as one bundle; what is still there
   when the job has ended is fetched by `toposeat-exec --collect`. MPI is not used for this: no rank
   waits for another one, so that none can wait for one that has died.

   A bundle is a row of files without their holes; numbers are in network byte order:

       name (64 bytes, zero padded)   size (64 bits)   number of extents (64 bits)
       for each extent: offset (64 bits)   length (64 bits)   bytes

   Used by toposeat-exec and by the interposer: it needs nothing but the C library. */
#ifndef TOPOSEAT_LAUNCHER_CARRY_H
#define TOPOSEAT_LAUNCHER_CARRY_H

#include <stdbool.h>
#include <stddef.h>

#define TPS_BUNDLE_SUFFIX ".tpsnode"

/* Whether `folder` is the one that was made for this run, seen from here. */
bool tps_is_folder_of_run(const char *folder, const char *run);

/* This node's own folder of the run goes to `folder`; made first, with `make`. False: there is
   none, errno tells why. */
bool tps_node_folder(const char *run, bool make, char *folder, size_t size);

/* Notes that `rank` was started on this node. False: errno tells why. */
bool tps_note_start(const char *folder, long rank);

/* Whether nobody has said yet, of those whose records are in this folder, that there is no room. */
bool tps_may_say(const char *folder);

/* Tells home, once per node, which ranks were started here: if they die and the node cannot be
   reached any more, their host is known. Waits a moment for home, longer if it is reached. */
void tps_tell_starts(const char *folder, const char *words);

/* Marks this process as one that counts no more, and whether it is to send the folder home now: all
   others that keep a record there have left too, or have died. */
bool tps_leave(const char *folder, long rank);

/* The second half of that, for a process that has marked itself, or keeps no record. */
bool tps_all_left(const char *folder);

enum tps_carried {
  TPS_CARRIED,
  TPS_UNREACHED, /* no connection within some seconds */
  TPS_NOT_KEPT,  /* home was reached, and did not take it */
  TPS_GIVEN_UP,  /* not tried: this node has not reached home before */
};

/* Sends everything in a node's own folder to the home that `words` name. What no process writes to
   any more is removed then; with `all`, which always tries, everything is. */
enum tps_carried tps_carry_home(const char *folder, const char *words, bool all);

#endif
