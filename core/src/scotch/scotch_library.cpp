// SPDX-License-Identifier: MIT OR Apache-2.0
#include "scotch/scotch_library.hpp"

#include <dlfcn.h>

#include <array>

namespace toposeat {
namespace {

template <class Function> bool assign(Function &function, void *symbol) {
  function = reinterpret_cast<Function>(symbol);
  return symbol != nullptr;
}

/// The first of several spellings that can be opened: the bare name needs the -dev package.
void *open_first(const std::string &stem, int flags) {
  for (const char *suffix : {"-7.0.so", ".so", "-6.1.so", "-6.0.so", ".so.7", "-7.0.so.7"}) {
    if (void *handle = dlopen((stem + suffix).c_str(), flags))
      return handle;
  }
  return nullptr;
}

} // namespace

const ScotchLibrary *ScotchLibrary::instance() {
  static ScotchLibrary library;
  static const bool loaded = library.load();
  return loaded ? &library : nullptr;
}

void *ScotchLibrary::find(const char *name) const { return dlsym(handle_, name); }

bool ScotchLibrary::load() {
  // libscotch leaves the error printer to a second library, which must be global before it.
  open_first("libscotcherr", RTLD_LAZY | RTLD_GLOBAL);
  handle_ = open_first("libscotch", RTLD_LAZY | RTLD_LOCAL);
  if (handle_ == nullptr)
    return false;
  int (*size_of_number)() = nullptr;
  const bool complete =
      assign(size_of_number, find("SCOTCH_numSizeof")) &&
      assign(graph_make, find("SCOTCH_graphAlloc")) &&
      assign(graph_init, find("SCOTCH_graphInit")) &&
      assign(graph_exit, find("SCOTCH_graphExit")) &&
      assign(target_make, find("SCOTCH_archAlloc")) &&
      assign(target_init, find("SCOTCH_archInit")) &&
      assign(target_exit, find("SCOTCH_archExit")) &&
      assign(strategy_make, find("SCOTCH_stratAlloc")) &&
      assign(strategy_init, find("SCOTCH_stratInit")) &&
      assign(strategy_exit, find("SCOTCH_stratExit")) &&
      assign(memory_free, find("SCOTCH_memFree")) &&
      assign(random_reset, find("SCOTCH_randomReset")) && find("SCOTCH_graphBuild") != nullptr &&
      find("SCOTCH_graphMap") != nullptr && find("SCOTCH_archBuild") != nullptr &&
      find("SCOTCH_archTleaf") != nullptr && find("SCOTCH_archTorusX") != nullptr &&
      find("SCOTCH_stratGraphMapBuild") != nullptr && find("SCOTCH_randomSeed") != nullptr;
  if (!complete)
    return false;
  number_size = static_cast<std::size_t>(size_of_number());
  const bool contexts = assign(context_make, find("SCOTCH_contextAlloc")) &&
                        assign(context_init, find("SCOTCH_contextInit")) &&
                        assign(context_exit, find("SCOTCH_contextExit")) &&
                        assign(context_random, find("SCOTCH_contextRandomClone")) &&
                        assign(context_bind, find("SCOTCH_contextBindGraph")) &&
                        assign(context_threads, find("SCOTCH_contextThreadSpawn"));
  if (!contexts)
    context_threads = nullptr; // Scotch 6 has no threads to hold back
  return number_size == sizeof(std::int32_t) || number_size == sizeof(std::int64_t);
}

template <class Number> ScotchFunctions<Number> ScotchLibrary::functions() const {
  ScotchFunctions<Number> result{};
  assign(result.graph_build, find("SCOTCH_graphBuild"));
  assign(result.graph_map, find("SCOTCH_graphMap"));
  assign(result.target_build, find("SCOTCH_archBuild"));
  assign(result.target_tree, find("SCOTCH_archTleaf"));
  assign(result.target_torus, find("SCOTCH_archTorusX"));
  assign(result.strategy_build, find("SCOTCH_stratGraphMapBuild"));
  assign(result.random_seed, find("SCOTCH_randomSeed"));
  return result;
}

template ScotchFunctions<std::int32_t> ScotchLibrary::functions() const;
template ScotchFunctions<std::int64_t> ScotchLibrary::functions() const;

} // namespace toposeat
