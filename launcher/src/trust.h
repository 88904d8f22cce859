/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What is mine on a node that others use, too: by owner, mode, links and path, never by name. The
   same rules in the same words: src/toposeat/model/trust.py.

       own folder   a folder, no link, of this user, that nobody else may enter
       mark         made new in an own folder; what lies there already is not written to
       own file     regular, no link, of this user or root; it lies in an own folder, or no other
                    may write to it
       safe place   a path that no other can lead elsewhere: each folder of it is of this user or
                    root, and others may write at most where it is sticky
       peer         at the other end of a Unix socket: a process of this user

   "Others" is everybody but this user and root; the group is not, where it has this user alone.
   Of what is refused errno says EACCES, ELOOP for a link and ENOTDIR for what is no folder. It
   needs nothing but the C library. */
#ifndef TOPOSEAT_LAUNCHER_TRUST_H
#define TOPOSEAT_LAUNCHER_TRUST_H

#include <stdbool.h>

/* A handle of an own folder, in which `tps_make_mark` and `tps_own_file` work; -1: it is none. */
int tps_own_folder(const char *path);

/* Makes a mark in an own folder, 0600, and returns its handle, for both; -1: errno is EEXIST where
   anything has that name, a link that leads nowhere included. With AT_FDCWD and a path it makes a
   file in a folder that the user has named. */
int tps_make_mark(int folder, const char *name);

/* A handle of an own file in an own folder, or by its path with AT_FDCWD, for reading; waits for no
   writer of a pipe. -1: it is none. */
int tps_own_file(int folder, const char *name);

/* Whether `path`, which is absolute, is a folder and a safe place. */
bool tps_is_safe_place(const char *path);

bool tps_peer_is_mine(int peer);

#endif
