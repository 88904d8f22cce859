/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <dlfcn.h>
#include <string.h>
int main(int argc, char **argv) {
  void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  int (*finish)(void);
  if (argc != 2 || plugin == NULL)
    return 9;
  void *symbol = dlsym(plugin, "finish");
  memcpy(&finish, &symbol, sizeof finish);
  return finish();
}
