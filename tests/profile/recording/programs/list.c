/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* As uv, whose list of licences has a "BSD 3-Clause Open MPI variant". */
#include <stdio.h>
const char *const licences[] = {"Open MPI v", "MPICH Version", "Intel(R) MPI Library"};
int main(int c, char **v) {
  (void)v;
  return puts(licences[c % 3]) < 0;
}
