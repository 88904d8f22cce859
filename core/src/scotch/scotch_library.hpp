// The functions of libscotch that are used, looked up at run time. Declared here from the Scotch
// user's manual (libScotch reference), with all its objects opaque and allocated by itself.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace toposeat {

template <class Number> struct ScotchFunctions {
  using Object = void *;
  int (*graph_build)(Object, Number base, Number vertices, const Number *begin, const Number *end,
                     const Number *loads, const Number *labels, Number arcs, const Number *targets,
                     const Number *arc_loads);
  int (*graph_map)(Object graph, Object target, Object strategy, Number *part);
  int (*target_build)(Object target, Object graph, Number listed, const Number *list,
                      Object strategy);
  int (*target_tree)(Object target, Number levels, const Number *sizes, const Number *costs);
  int (*target_torus)(Object target, Number dimensions, const Number *extents);
  int (*strategy_build)(Object strategy, Number flags, Number parts, double imbalance);
  void (*random_seed)(Number);
};

class ScotchLibrary {
public:
  using Object = void *;
  using Make = Object (*)();
  using Start = int (*)(Object);
  using Stop = void (*)(Object);

  /// Looked for once per process; nullptr if there is none.
  static const ScotchLibrary *instance();

  Make graph_make, target_make, strategy_make, context_make;
  Start graph_init, target_init, strategy_init, context_init;
  Stop graph_exit, target_exit, strategy_exit, context_exit;
  void (*memory_free)(void *);
  void (*random_reset)();
  int (*context_threads)(Object, int threads, const int *cores); // may be missing
  int (*context_random)(Object);                                 // a generator of its own
  int (*context_bind)(Object context, Object graph, Object bound);
  std::size_t number_size; // of SCOTCH_Num

  template <class Number> [[nodiscard]] ScotchFunctions<Number> functions() const;

private:
  bool load();
  [[nodiscard]] void *find(const char *name) const;
  void *handle_ = nullptr;
};

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
