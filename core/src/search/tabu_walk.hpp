// Robust tabu search over the exchanges of a SwapTable (Taillard, Parallel Computing 17, 1991): the
// best exchange that is not barred is made, better or not; neither rank gets its old device back
// for a random time, unless that is better than all before.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/rng.hpp"
#include "search/swap_table.hpp"
#include "toposeat/base/deadline.hpp"
#include "toposeat/problem/qap.hpp"

namespace toposeat {

/// Moves and time that all walks of a search share. The clock is asked about every 20 microseconds
/// of work, however large the problem.
class SearchBudget {
public:
  SearchBudget(std::uint64_t moves, const Deadline &deadline, std::size_t ranks)
      : moves_(moves), deadline_(deadline),
        between_looks_(std::clamp<std::uint64_t>(200000 / (1 + ranks * ranks), 1, 64)) {}

  /// Counts one move; false once moves or time are used up.
  bool spend() {
    if (used_ >= moves_ || over_)
      return false;
    if (used_ % between_looks_ == 0)
      over_ = deadline_.expired();
    ++used_;
    return !over_;
  }

  [[nodiscard]] bool over() const { return over_ || used_ >= moves_; }
  [[nodiscard]] std::uint64_t used() const { return used_; }

private:
  std::uint64_t moves_;
  const Deadline &deadline_;
  std::uint64_t between_looks_;
  std::uint64_t used_ = 0;
  bool over_ = false;
};

struct WalkLimits {
  std::uint64_t moves;    // at most
  std::uint64_t patience; // ends after so many moves without a new best of the walk
};

struct WalkResult {
  Assignment placement;
  double cost = 0;
};

/// After an exchange neither rank gets its old device back for a random time of 0.9 to 1.1 times
/// the number of ranks, unless that would give a placement better than all before (Taillard,
/// Parallel Computing 17, 1991). Ties are broken at random.
template <class Number> class TabuWalk {
public:
  TabuWalk(const SwapProblem &problem, SearchBudget &budget, Rng &rng)
      : table_(problem), budget_(budget), rng_(rng), least_tenure_((9 * problem.n + 9) / 10),
        tenures_(std::max<std::size_t>(1, problem.n / 5 + 4)) {}

  /// Best placement of a walk from `start`; ends early at a cost of `target`. A barred exchange is
  /// made all the same if it beats the walk and `record`.
  WalkResult run(const Assignment &start, WalkLimits limits, double record, double target) {
    table_.reset(start);
    WalkResult best{start, table_.cost()};
    Number now = 0;
    std::uint64_t idle = 0;
    std::uint64_t moves = 0;
    while (moves++ < limits.moves && idle++ < limits.patience && best.cost > target &&
           budget_.spend()) {
      if (now >= longest || since_refresh_ >= refresh_after)
        restart_clock(now);
      if (!step(++now, std::min(best.cost, record)))
        continue;
      if (less_by_tolerance(table_.cost(), best.cost)) {
        best.cost = table_.cost();
        best.placement = table_.placement();
        idle = 0;
      }
    }
    return best;
  }

private:
  static constexpr Number longest = SwapTable<Number>::long_barred / 2;
  static constexpr std::uint64_t refresh_after = 1 << 16; // exchanges, against rounding errors

  bool step(Number now, double record) {
    constexpr auto widest = static_cast<double>(SwapTable<Number>::long_barred);
    const double below = record - 1e-9 * std::abs(record) - table_.cost();
    const auto bounded = static_cast<Number>(std::clamp(below, -widest, widest));
    const auto pair = table_.best(now, bounded, rng_.next());
    if (!pair.found)
      return false;
    table_.exchange(pair.i, pair.j, now + tenure(), now + tenure());
    ++since_refresh_;
    return true;
  }

  Number tenure() { return static_cast<Number>(least_tenure_ + rng_.below(tenures_)); }

  void restart_clock(Number &now) {
    since_refresh_ = 0;
    if (now >= longest) {
      now = 0;
      const Assignment here = table_.placement();
      table_.reset(here);
    } else {
      table_.refresh();
    }
  }

  SwapTable<Number> table_;
  SearchBudget &budget_;
  Rng &rng_;
  std::size_t least_tenure_;
  std::size_t tenures_;
  std::uint64_t since_refresh_ = 0;
};

} // namespace toposeat
