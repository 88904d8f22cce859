// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/tabu.hpp"

#include <algorithm>

#include "toposeat/rng.hpp"

namespace toposeat {
namespace {

/// Swap deltas of one placement, kept up to date in O(1) per pair and swap. Symmetric matrices, the
/// common case, need half the arithmetic.
class DeltaTable {
public:
  DeltaTable(const Qap &qap, const std::vector<std::uint32_t> &movable)
      : qap_(qap), movable_(movable), delta_(qap.size()), symmetric_(is_symmetric(qap)) {}

  void rebuild(const Assignment &placement) {
    for (std::size_t a = 0; a < movable_.size(); ++a) {
      for (std::size_t b = a + 1; b < movable_.size(); ++b) {
        delta_(movable_[a], movable_[b]) = swap_delta(qap_, placement, movable_[a], movable_[b]);
      }
    }
  }

  /// After r and s were exchanged in `placement`.
  void update(const Assignment &placement, std::size_t r, std::size_t s) {
    const std::size_t n = qap_.size();
    flow_.resize(2 * n);
    distance_.resize(2 * n);
    const std::size_t pr = placement[r];
    const std::size_t ps = placement[s];
    for (std::size_t k = 0; k < n; ++k) {
      const std::size_t pk = placement[k];
      flow_[k] = qap_.flow(r, k) - qap_.flow(s, k);
      distance_[k] = qap_.distance(ps, pk) - qap_.distance(pr, pk);
      if (!symmetric_) {
        flow_[n + k] = qap_.flow(k, r) - qap_.flow(k, s);
        distance_[n + k] = qap_.distance(pk, ps) - qap_.distance(pk, pr);
      }
    }
    for (std::size_t a = 0; a < movable_.size(); ++a) {
      update_row(placement, a, r, s);
    }
  }

  double operator()(std::size_t a, std::size_t b) const { return delta_(a, b); }

private:
  static bool is_symmetric(const Qap &qap) {
    for (std::size_t i = 0; i < qap.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (qap.flow(i, j) != qap.flow(j, i) || qap.distance(i, j) != qap.distance(j, i)) {
          return false;
        }
      }
    }
    return true;
  }

  void update_row(const Assignment &placement, std::size_t a, std::size_t r, std::size_t s) {
    const std::size_t n = qap_.size();
    const std::size_t i = movable_[a];
    const bool i_moved = i == r || i == s;
    for (std::size_t b = a + 1; b < movable_.size(); ++b) {
      const std::size_t j = movable_[b];
      if (i_moved || j == r || j == s) {
        delta_(i, j) = swap_delta(qap_, placement, i, j);
      } else if (qap_.has_second_term()) {
        delta_(i, j) = swap_delta(qap_, placement, i, j);
      } else if (symmetric_) {
        delta_(i, j) += 2 * (flow_[i] - flow_[j]) * (distance_[i] - distance_[j]);
      } else {
        delta_(i, j) += (flow_[i] - flow_[j]) * (distance_[i] - distance_[j]) +
                        (flow_[n + i] - flow_[n + j]) * (distance_[n + i] - distance_[n + j]);
      }
    }
  }

  const Qap &qap_;
  const std::vector<std::uint32_t> &movable_;
  Matrix delta_;
  bool symmetric_;
  std::vector<double> flow_;
  std::vector<double> distance_;
};

class Tabu {
public:
  Tabu(const Qap &qap, const Assignment &start, const TabuOptions &options,
       const Deadline &deadline)
      : qap_(qap), options_(options), deadline_(deadline), rng_(options.seed), here_(start),
        best_(start), best_cost_(qap_cost(qap, start)), movable_(movable_ranks(qap)),
        table_(qap, movable_), tabu_until_(qap.size() * qap.size(), 0) {}

  CostAnswer run() {
    const std::size_t n = movable_.size();
    if (n < 2) {
      return {best_, best_cost_};
    }
    double anchor_cost = best_cost_;
    Assignment anchor = best_;
    std::size_t kick = 3;
    while (!done()) {
      const double reached = round(5 * n);
      if (less_by_tolerance(reached, anchor_cost)) {
        kick = 3;
      } else {
        kick = kick + 1 > std::max<std::size_t>(3, n / 2) ? 3 : kick + 1;
      }
      // Mostly continue from the best; now and then from where the round ended, or from anywhere.
      const double dice = rng_.unit();
      if (dice < 0.05) {
        shuffle(anchor);
        anchor_cost = unlimited;
      } else if (dice < 0.85 || reached <= best_cost_) {
        anchor = best_;
        anchor_cost = best_cost_;
      } else {
        anchor = round_best_;
        anchor_cost = reached;
      }
      here_ = anchor;
      cycle(std::min(kick, n));
    }
    return {best_, qap_cost(qap_, best_)};
  }

private:
  static std::vector<std::uint32_t> movable_ranks(const Qap &qap) {
    std::vector<std::uint32_t> movable;
    for (std::uint32_t r = 0; r < qap.size(); ++r) {
      if (qap.free_rank(r)) {
        movable.push_back(r);
      }
    }
    return movable;
  }

  bool done() {
    return moves_ >= options_.moves || best_cost_ <= options_.target || deadline_.expired();
  }

  /// Tabu search from `here_` until `patience` moves bring nothing new; returns the round's best.
  double round(std::size_t patience) {
    table_.rebuild(here_);
    cost_ = qap_cost(qap_, here_);
    round_cost_ = cost_;
    round_best_ = here_;
    std::size_t idle = 0;
    while (idle < patience && (moves_ % 64 != 0 || !done())) {
      const bool moved = step();
      ++moves_;
      ++idle;
      if (moved && less_by_tolerance(cost_, round_cost_)) {
        round_cost_ = cost_;
        round_best_ = here_;
        idle = 0;
        if (cost_ <= options_.target) {
          break;
        }
      }
    }
    if (less_by_tolerance(round_cost_, best_cost_)) {
      best_ = round_best_;
      best_cost_ = qap_cost(qap_, best_);
    }
    if (options_.visit) {
      options_.visit(round_best_, round_cost_);
    }
    return round_cost_;
  }

  bool step() {
    const std::size_t n = qap_.size();
    const double record = std::min(best_cost_, round_cost_);
    const double aspiration = record - 1e-9 * record;
    double chosen = unlimited;
    std::size_t r = n;
    std::size_t s = n;
    for (std::size_t a = 0; a < movable_.size(); ++a) {
      const std::size_t i = movable_[a];
      const std::uint64_t *until_i = tabu_until_.data() + i * n;
      for (std::size_t b = a + 1; b < movable_.size(); ++b) {
        const std::size_t j = movable_[b];
        const double delta = table_(i, j);
        if (delta >= chosen || (restricted_ && !qap_.may_swap(here_, i, j))) {
          continue;
        }
        const bool tabu = until_i[here_[j]] > moves_ && tabu_until_[j * n + here_[i]] > moves_;
        if (!tabu || cost_ + delta < aspiration) {
          chosen = delta;
          r = i;
          s = j;
        }
      }
    }
    if (r == n) {
      return false;
    }
    const std::size_t low = (9 * n + 9) / 10;
    const std::size_t spread = std::max<std::size_t>(1, n / 5 + 4);
    tabu_until_[r * n + here_[r]] = moves_ + low + rng_.below(spread);
    tabu_until_[s * n + here_[s]] = moves_ + low + rng_.below(spread);
    std::swap(here_[r], here_[s]);
    cost_ += chosen;
    table_.update(here_, r, s);
    return true;
  }

  /// Sends `length` random movable ranks around a cycle of their devices.
  void cycle(std::size_t length) {
    std::vector<std::uint32_t> chosen = movable_;
    for (std::size_t i = 0; i < length; ++i) {
      std::swap(chosen[i], chosen[i + rng_.below(chosen.size() - i)]);
    }
    for (std::size_t i = 1; i < length; ++i) {
      if (qap_.may_swap(here_, chosen[0], chosen[i]))
        std::swap(here_[chosen[0]], here_[chosen[i]]);
    }
  }

  void shuffle(Assignment &placement) {
    for (std::size_t i = movable_.size(); i > 1; --i) {
      const std::uint32_t r = movable_[i - 1];
      const std::uint32_t s = movable_[rng_.below(i)];
      if (qap_.may_swap(placement, r, s))
        std::swap(placement[r], placement[s]);
    }
  }

  const Qap &qap_;
  const TabuOptions &options_;
  const Deadline &deadline_;
  Rng rng_;
  Assignment here_;
  Assignment best_;
  double best_cost_;
  std::vector<std::uint32_t> movable_;
  DeltaTable table_;
  std::vector<std::uint64_t> tabu_until_;
  bool restricted_ = !qap_.allowed.empty();
  Assignment round_best_;
  double cost_ = 0;
  double round_cost_ = 0;
  std::uint64_t moves_ = 0;
};

} // namespace

CostAnswer tabu_search(const Qap &qap, const Assignment &start, const TabuOptions &options,
                       const Deadline &deadline) {
  return Tabu(qap, start, options, deadline).run();
}

double descend(const Qap &qap, Assignment &placement) {
  const std::size_t n = qap.size();
  double cost = qap_cost(qap, placement);
  bool improved = true;
  while (improved) {
    improved = false;
    for (std::size_t r = 0; r < n; ++r) {
      for (std::size_t s = r + 1; s < n && qap.free_rank(r); ++s) {
        if (!qap.may_swap(placement, r, s)) {
          continue;
        }
        if (swap_delta(qap, placement, r, s) < -1e-9 * cost) {
          std::swap(placement[r], placement[s]);
          cost = qap_cost(qap, placement);
          improved = true;
        }
      }
    }
  }
  return cost;
}

} // namespace toposeat
