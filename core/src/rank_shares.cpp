// SPDX-License-Identifier: MIT OR Apache-2.0
#include "rank_shares.hpp"

#include <algorithm>

#include "toposeat/network.hpp"

namespace toposeat {
namespace {

/// Goes through the sets in the order of their numbers: largest member first.
class Sweep {
public:
  Sweep(const double *values, const std::vector<double> &shares)
      : next_(values), shares_(shares), least_(shares.size(), unlimited) {}

  /// Sets with `members` more ranks, all less than `end`; returns the least that any has left.
  double run(int members, int end, double spent) {
    double least = unlimited;
    if (members == 1) {
      for (std::size_t r = 0; r < static_cast<std::size_t>(end); ++r) {
        const double left = std::max(*next_++ - (spent + shares_[r]), 0.0);
        least_[r] = std::min(least_[r], left);
        least = std::min(least, left);
      }
      return least;
    }
    for (int rank = members - 1; rank < end; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      const double left = run(members - 1, rank, spent + shares_[r]);
      least_[r] = std::min(least_[r], left);
      least = std::min(least, left);
    }
    return least;
  }

  std::vector<double> take() { return std::move(least_); }

private:
  const double *next_;
  const std::vector<double> &shares_;
  std::vector<double> least_;
};

} // namespace

std::vector<double> least_left(const double *values, int size, const std::vector<double> &shares) {
  Sweep sweep(values, shares);
  sweep.run(size, static_cast<int>(shares.size()), 0);
  return sweep.take();
}

} // namespace toposeat
