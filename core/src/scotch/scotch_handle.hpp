// What the two users of Scotch share: its objects, and mapping on one thread.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <stdexcept>

#include "scotch/scotch_library.hpp"

namespace toposeat {

/// A Scotch object with the life of a C++ one.
class ScotchHandle {
public:
  ScotchHandle(const ScotchLibrary &library, ScotchLibrary::Make make, ScotchLibrary::Start start,
               ScotchLibrary::Stop stop)
      : library_(library), stop_(stop), object_(make()) {
    if (object_ == nullptr || start(object_) != 0)
      throw std::runtime_error("scotch could not start");
  }
  ScotchHandle(const ScotchHandle &) = delete;
  ScotchHandle &operator=(const ScotchHandle &) = delete;
  ~ScotchHandle() {
    stop_(object_);
    library_.memory_free(object_);
  }
  [[nodiscard]] void *get() const { return object_; }

private:
  const ScotchLibrary &library_;
  ScotchLibrary::Stop stop_;
  void *object_;
};

/// Scotch 7 takes all cores otherwise, and its answer depends on how many there are. Throws
/// std::runtime_error if it refuses.
template <class Number>
void scotch_map_single_threaded(const ScotchLibrary &library, const ScotchFunctions<Number> &scotch,
                                const ScotchHandle &graph, const ScotchHandle &target,
                                const ScotchHandle &strategy, Number *part) {
  int failed = 1;
  if (library.context_threads != nullptr) {
    const ScotchHandle context(library, library.context_make, library.context_init,
                               library.context_exit);
    const ScotchHandle bound(library, library.graph_make, library.graph_init, library.graph_exit);
    // The context's own generator starts where `random_seed` put the global one.
    if (library.context_threads(context.get(), 1, nullptr) != 0 ||
        library.context_random(context.get()) != 0 ||
        library.context_bind(context.get(), graph.get(), bound.get()) != 0)
      throw std::runtime_error("scotch refused one thread");
    failed = scotch.graph_map(bound.get(), target.get(), strategy.get(), part);
  } else {
    failed = scotch.graph_map(graph.get(), target.get(), strategy.get(), part);
  }
  if (failed != 0)
    throw std::runtime_error("scotch found no mapping");
}

} // namespace toposeat
