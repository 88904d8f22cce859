/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "trust.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { NOBODY = 65534 };

/* Where this user alone has a number, as in many containers, the folders of root seem nobody's. */
static bool is_root_unknown(void) {
  FILE *map = fopen("/proc/self/uid_map", "re");
  char line[64]; /* begins with the first of the numbers that a range is of */
  bool unknown = map != NULL;
  while (unknown && fgets(line, sizeof line, map) != NULL)
    unknown = strtoul(line, NULL, 10) != 0;
  if (map != NULL)
    fclose(map);
  return unknown;
}

static bool is_folder_of_mine_or_root(const struct stat *status) {
  uid_t owner = status->st_uid;
  return owner == geteuid() || owner == 0 || (owner == NOBODY && is_root_unknown());
}

/* A group of one user has that user's number in the usual case; to know more, a directory of users
   would have to be asked. A list of access rights grants what the group's bits only hint at. */
static bool others_may_write(const struct stat *status, bool has_list) {
  bool own_group = status->st_gid == getegid() && status->st_gid == geteuid() && !has_list;
  return (status->st_mode & S_IWOTH) != 0 || ((status->st_mode & S_IWGRP) != 0 && !own_group);
}

static const char access_list[] = "system.posix_acl_access";

/* Closes a handle that is refused. */
static int refuse(int handle, int reason) {
  if (handle >= 0)
    close(handle);
  errno = reason;
  return -1;
}

int tps_own_folder(const char *path) {
  struct stat status;
  int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0)
    return -1;
  if (fstat(folder, &status) != 0)
    return refuse(folder, errno);
  bool own = status.st_uid == geteuid() && (status.st_mode & (S_IRWXG | S_IRWXO)) == 0;
  return own ? folder : refuse(folder, EACCES);
}

int tps_make_mark(int folder, const char *name) {
  return openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

int tps_own_file(int folder, const char *name) {
  struct stat status;
  int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (file < 0)
    return -1;
  if (fstat(file, &status) != 0)
    return refuse(file, errno);
  bool alone =
      folder != AT_FDCWD || !others_may_write(&status, fgetxattr(file, access_list, NULL, 0) > 0);
  bool own = S_ISREG(status.st_mode) && (status.st_uid == geteuid() || status.st_uid == 0) && alone;
  return own ? file : refuse(file, EACCES);
}

bool tps_is_safe_place(const char *path) {
  char at[PATH_MAX];
  if (path[0] != '/') {
    errno = EINVAL;
    return false;
  }
  if (realpath(path, at) == NULL)
    return false;
  for (bool more = true; more;) {
    struct stat status;
    if (lstat(at, &status) != 0)
      return false;
    bool safe = (status.st_mode & S_ISVTX) != 0 ||
                !others_may_write(&status, getxattr(at, access_list, NULL, 0) > 0);
    if (!S_ISDIR(status.st_mode) || !safe || !is_folder_of_mine_or_root(&status)) {
      errno = S_ISDIR(status.st_mode) ? EACCES : ENOTDIR;
      return false;
    }
    more = at[1] != '\0';
    char *slash = strrchr(at, '/');
    slash[slash == at ? 1 : 0] = '\0';
  }
  return true;
}

bool tps_peer_is_mine(int peer) {
  struct ucred other;
  socklen_t size = sizeof other;
  return getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.uid == geteuid();
}
