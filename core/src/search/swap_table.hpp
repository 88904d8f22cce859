// The change of cost of every exchange of two ranks, kept up to date.
//
// Taillard, Robust taboo search for the quadratic assignment problem, Parallel Computing 17, 1991:
// after an exchange of u and v, the delta of any pair without either changes by a product of
// differences,
//
//     delta'(i, j) = delta(i, j) - sum over half terms of (a(i) - a(j)) x (b(i) - b(j)),
//     a(i) = flow(i, u) - flow(i, v),  b(i) = distance(p[i], p[u]) - distance(p[i], p[v])
//
// so that all pairs take O(n^2), those of u and v from what all would pay on each other's devices.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "search/swap_problem.hpp"

namespace toposeat {

/// A placement of a SwapProblem with the deltas of all its exchanges.
///
/// An exchange costs O(n^2) in straight loops over rows, which compilers turn into vector
/// instructions: a[i][j], what rank i would pay on the device of rank j, changes by a product of
/// two vectors, and so do the deltas of the pairs that did not move (Taillard, Parallel Computing
/// 17, 1991); those of the two ranks that moved follow from a. Ranks that talk to neither of them
/// are skipped. `Number` is std::int32_t where the problem is of small integers, else double.
///
/// Each pair also has the time until which it is barred; `never` bars it for good: a rank that may
/// not go there, or an exchange that changes nothing (see the classes of SwapProblem).
template <class Number> class SwapTable {
public:
  static constexpr Number never = std::numeric_limits<Number>::max();
  static constexpr Number long_barred = never / 2; // more than any time that is ever reached
  struct Pair {
    std::size_t i = 0;
    std::size_t j = 0;
    Number delta = 0;
    bool found = false;
  };

  explicit SwapTable(const SwapProblem &problem);

  /// Starts over from a placement; no pair is barred but those for good. O(n * flows).
  void reset(const Assignment &placement);
  /// As `reset`, keeping what is barred for good only; the deltas of the present placement are
  /// computed anew, without the rounding errors of many updates.
  void refresh();

  /// Ranks i and j exchange their devices; neither gets its old device back before `until`.
  void exchange(std::size_t i, std::size_t j, Number until_i = 0, Number until_j = 0);

  /// Least delta among the pairs not barred at `now`, ties broken by `tie`; and the least of all
  /// pairs that are not barred for good, if `any_below` is more than it.
  Pair best(Number now, Number any_below, std::uint64_t tie);

  [[nodiscard]] bool may_exchange(std::size_t i, std::size_t j) const;
  [[nodiscard]] Number delta(std::size_t i, std::size_t j) const {
    return i < j ? delta_[i * stride_ + j] : delta_[j * stride_ + i];
  }
  [[nodiscard]] double cost() const { return cost_; } // in units of the problem, without `fixed`
  [[nodiscard]] const Assignment &placement() const { return placement_; }
  [[nodiscard]] std::size_t size() const { return n_; }

private:
  struct Half {
    std::vector<Number> flow;     // n x stride
    std::vector<Number> distance; // n x stride
    std::size_t mate;
  };

  void load(const SwapProblem &problem);
  void fill_products();
  void differences(std::size_t i, std::size_t j);
  void swap_columns(std::size_t i, std::size_t j);
  void fresh_deltas(std::size_t i, std::size_t first);
  void fresh_bars(std::size_t i, std::size_t first);
  [[nodiscard]] Pair find(Number least, Number until, std::span<const Number> minima,
                          std::uint64_t tie) const;

  std::size_t n_;
  std::size_t stride_;
  std::vector<Half> halves_;
  std::vector<Number> linear_;            // rank x device; may be empty
  std::vector<std::uint8_t> not_allowed_; // rank x device; may be empty
  std::vector<std::uint32_t> class_of_rank_;
  std::vector<std::uint32_t> class_of_device_;
  bool any_for_good_; // some pair is barred for good, or may be after some exchange
  Assignment placement_;
  double cost_ = 0;
  std::vector<Number> products_;      // a[i][j]
  std::vector<Number> delta_;         // upper triangle
  std::vector<Number> barred_;        // upper triangle; everything else `never`
  std::vector<Number> bar_of_rank_;   // rank x device: no return before
  std::vector<Number> bar_of_device_; // the same, device x rank
  std::vector<Number> own_;           // a[i][i]
  std::vector<Number> u_, v_;         // one row per half
  std::vector<Number> row_;
  std::vector<Number> least_free_, least_any_;
};

extern template class SwapTable<std::int32_t>;
extern template class SwapTable<double>;

} // namespace toposeat
