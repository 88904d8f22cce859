#include "trust.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
int main(int count, char **words) {
  const char *what = count == 3 ? words[1] : "";
  errno = 0;
  if (strcmp(what, "folder") == 0 && tps_own_folder(words[2]) < 0)
    return errno;
  if (strcmp(what, "file") == 0 && tps_own_file(AT_FDCWD, words[2]) < 0)
    return errno;
  if (strcmp(what, "place") == 0 && !tps_is_safe_place(words[2]))
    return errno;
  if (strcmp(what, "mark") == 0 && tps_make_mark(tps_own_folder(words[2]), "mark") < 0)
    return errno;
  if (strcmp(what, "in") == 0 && tps_own_file(tps_own_folder(words[2]), "open") < 0)
    return errno;
  if (strcmp(what, "peer") == 0 && !tps_peer_is_mine(0))
    return 1;
  return 0;
}
