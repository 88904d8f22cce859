// SPDX-License-Identifier: MIT OR Apache-2.0
#include "exact/branch_and_bound.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "bounds/dual_ascent.hpp"
#include "bounds/gilmore_lawler.hpp"
#include "bounds/prepared_qap.hpp"
#include "toposeat/problem/qap.hpp"
#include "toposeat/problem/symmetry.hpp"

namespace toposeat {
namespace {

/// Numbers for pairs of values, the same for equal pairs.
class Colours {
public:
  double of(double first, double second) {
    return known_.try_emplace({first, second}, static_cast<double>(known_.size())).first->second;
  }

private:
  std::map<std::pair<double, double>, double> known_;
};

/// Equal colours of two pairs: both terms are equal. Equal colours of two lines (on the diagonal):
/// `line(i)` is equal, that is the restrictions to allowed devices.
template <class Line>
Matrix coloured(const Matrix &first, const Matrix &second, std::size_t n, const Line &line) {
  Colours colours;
  std::map<std::vector<bool>, double> lines;
  Matrix result(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j)
      result(i, j) = colours.of(first(i, j), second.n != 0 ? second(i, j) : 0);
    result(i, i) = -1 - lines.try_emplace(line(i), static_cast<double>(lines.size())).first->second;
  }
  return result;
}

std::vector<bool> ranks_allowed_on(const Qap &qap, std::size_t device) {
  std::vector<bool> ranks;
  for (std::size_t r = 0; r < qap.size() && !qap.allowed.empty(); ++r)
    ranks.push_back(qap.allowed.contains(r, device));
  return ranks;
}

std::vector<bool> devices_allowed_for(const Qap &qap, std::size_t rank) {
  std::vector<bool> devices;
  for (std::size_t d = 0; d < qap.size() && !qap.allowed.empty(); ++d)
    devices.push_back(qap.allowed.contains(rank, d));
  return devices;
}

/// Matrix for `Symmetry`: device permutations that keep it keep all distances, of both terms, and
/// the sets of ranks that are allowed on each device. Pins are not looked at.
Matrix machine_colours(const Qap &qap) {
  return coloured(qap.distance, qap.distance2, qap.size(),
                  [&](std::size_t device) { return ranks_allowed_on(qap, device); });
}

/// The same for permutations of ranks: flows of both terms and allowed devices.
Matrix pattern_colours(const Qap &qap) {
  return coloured(qap.flow, qap.flow2, qap.size(),
                  [&](std::size_t rank) { return devices_allowed_for(qap, rank); });
}

constexpr int root_passes = 100;
constexpr int node_passes = 8;

class Branching {
public:
  Branching(const Qap &qap, const Assignment &incumbent, const Deadline &deadline, double upper)
      : original_(qap), prepared_(qap), qap_(prepared_.qap), deadline_(deadline), best_(incumbent),
        best_cost_(std::min(qap_cost(qap_, incumbent), limit_below(upper))),
        here_(qap.size(), Qap::no_pin), machine_(machine_colours(qap_)),
        pattern_(pattern_colours(qap_)) {}

  BoundedAnswer run() {
    double root_bound = std::max(0.0, gilmore_lawler_bound(qap_));
    if (root_bound > prunes_at()) {
      open_ = best_cost_;
    } else if (qap_.size() > max_branched_devices) {
      open_ = root_bound;
    } else {
      ReducedQap root(qap_);
      place_pins(root);
      root.improve(prunes_at(), root_passes, deadline_);
      root_bound = std::max(root_bound, root.bound());
      explore(root, true, true);
    }
    return result(root_bound);
  }

private:
  struct Branch {
    bool by_rank = true;
    std::size_t line = 0;              // position of the rank or device
    std::vector<std::size_t> children; // positions on the other side
    double weight = 0;                 // sum of the children's leaders
  };

  BoundedAnswer result(double root_bound) const {
    BoundedAnswer answer{best_, qap_cost(original_, best_), 0, false};
    const double bound = std::min(best_cost_, std::max(open_, root_bound));
    answer.lower_bound = std::min(answer.value, prepared_.original(bound));
    answer.proved = answer.lower_bound >= answer.value * (1 - 1e-9);
    if (answer.proved)
      answer.lower_bound = answer.value;
    return answer;
  }

  /// Least cost that a placement can have without being below `upper`.
  double limit_below(double upper) const {
    const double limit = prepared_.prepared(upper);
    if (!(limit < unlimited) || !(prepared_.step > 0))
      return limit;
    return std::ceil(limit / prepared_.step - 1e-6) * prepared_.step;
  }

  /// Bounds above this cannot lead to anything better.
  double prunes_at() const {
    if (prepared_.step > 0)
      return best_cost_ - prepared_.step + 1e-3;
    return best_cost_ - 1e-10 * prepared_.original(best_cost_) / prepared_.scale;
  }

  static std::size_t position(const std::vector<std::uint32_t> &numbers, std::uint32_t number) {
    return static_cast<std::size_t>(std::find(numbers.begin(), numbers.end(), number) -
                                    numbers.begin());
  }

  void place_pins(ReducedQap &node) {
    for (std::uint32_t r = 0; r < qap_.size(); ++r) {
      if (qap_.free_rank(r))
        continue;
      place(r, qap_.pinned[r]);
      node = node.assign(position(node.ranks(), r), position(node.devices(), qap_.pinned[r]));
    }
  }

  void place(std::uint32_t rank, std::uint32_t device) {
    here_[rank] = device;
    fixed_ranks_.push_back(rank);
    fixed_devices_.push_back(device);
  }

  void unplace() {
    here_[fixed_ranks_.back()] = Qap::no_pin;
    fixed_ranks_.pop_back();
    fixed_devices_.pop_back();
  }

  /// `node` has been improved. The flags say whether symmetries may be left.
  void explore(const ReducedQap &node, bool machine_symmetric, bool pattern_symmetric) {
    if (node.bound() > prunes_at())
      return;
    if (node.size() <= 3 || only_idle(node)) {
      complete(node);
      return;
    }
    if (deadline_.expired()) {
      open_ = std::min(open_, node.bound());
      return;
    }
    const auto devices = orbits(machine_, fixed_devices_, node.devices(), machine_symmetric);
    const auto ranks = orbits(pattern_, fixed_ranks_, node.ranks(), pattern_symmetric);
    const Branch branch = choose(node, ranks, devices);
    for (std::size_t i = 0; i < branch.children.size(); ++i) {
      const std::size_t row = branch.by_rank ? branch.line : branch.children[i];
      const std::size_t column = branch.by_rank ? branch.children[i] : branch.line;
      const double bound = node.bound() + node.leader(row, column);
      if (bound > prunes_at())
        continue;
      if (deadline_.expired()) {
        open_ = std::min(open_, bound);
        continue;
      }
      ReducedQap child = node.assign(row, column);
      place(node.ranks()[row], node.devices()[column]);
      child.improve(prunes_at(), node_passes, deadline_);
      explore(child, machine_symmetric, pattern_symmetric);
      unplace();
    }
  }

  bool only_idle(const ReducedQap &node) const {
    return std::all_of(node.ranks().begin(), node.ranks().end(),
                       [&](std::uint32_t r) { return r >= qap_.active; });
  }

  /// Positions of one member per orbit; clears `symmetric` once every orbit is a single one.
  static std::vector<std::size_t> orbits(const Symmetry &symmetry,
                                         const std::vector<std::uint32_t> &fixed,
                                         const std::vector<std::uint32_t> &numbers,
                                         bool &symmetric) {
    std::vector<std::size_t> positions;
    if (symmetric) {
      for (const std::uint32_t each : symmetry.representatives(fixed, numbers)) {
        positions.push_back(position(numbers, each));
      }
      symmetric = positions.size() < numbers.size();
    } else {
      positions.resize(numbers.size());
      std::iota(positions.begin(), positions.end(), std::size_t{0});
    }
    return positions;
  }

  /// A child whose bound is hopeless takes its whole orbit with it.
  Branch choose(const ReducedQap &node, const std::vector<std::size_t> &ranks,
                const std::vector<std::size_t> &devices) const {
    Branch best;
    bool first = true;
    const auto consider = [&](bool by_rank, std::size_t line,
                              const std::vector<std::size_t> &others) {
      Branch branch{by_rank, line, {}, 0};
      for (const std::size_t other : others) {
        const double leader = by_rank ? node.leader(line, other) : node.leader(other, line);
        if (node.bound() + leader > prunes_at())
          continue;
        branch.children.push_back(other);
        branch.weight += leader;
      }
      const bool better =
          branch.children.size() < best.children.size() ||
          (branch.children.size() == best.children.size() && branch.weight > best.weight);
      if (first || better)
        best = std::move(branch);
      first = false;
    };
    for (std::size_t i = 0; i < node.size(); ++i) {
      if (node.ranks()[i] < qap_.active)
        consider(true, i, devices);
      consider(false, i, ranks);
    }
    const auto leader = [&](std::size_t other) {
      return best.by_rank ? node.leader(best.line, other) : node.leader(other, best.line);
    };
    std::sort(best.children.begin(), best.children.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(leader(a), a) < std::pair(leader(b), b);
    });
    return best;
  }

  /// Tries every order of what is left: at most 3 ranks, or idle ones of which one order will do.
  void complete(const ReducedQap &node) {
    std::vector<std::uint32_t> devices = node.devices();
    std::sort(devices.begin(), devices.end());
    do {
      for (std::size_t i = 0; i < devices.size(); ++i)
        here_[node.ranks()[i]] = devices[i];
      if (!respects_allowed(node))
        continue;
      const double cost = qap_cost(qap_, here_);
      if (cost <= prunes_at()) {
        best_cost_ = cost;
        best_ = here_;
      }
    } while (!only_idle(node) && std::next_permutation(devices.begin(), devices.end()));
    for (const std::uint32_t rank : node.ranks())
      here_[rank] = Qap::no_pin;
  }

  bool respects_allowed(const ReducedQap &node) const {
    return std::all_of(node.ranks().begin(), node.ranks().end(),
                       [&](std::uint32_t r) { return qap_.may_use(r, here_[r]); });
  }

  const Qap &original_;
  PreparedQap prepared_;
  const Qap &qap_; // the prepared one
  const Deadline &deadline_;
  Assignment best_;
  double best_cost_;
  Assignment here_;
  std::vector<std::uint32_t> fixed_ranks_;
  std::vector<std::uint32_t> fixed_devices_;
  Symmetry machine_;
  Symmetry pattern_;
  double open_ = unlimited; // least bound of what was not explored
};

} // namespace

BoundedAnswer branch_and_bound(const Qap &qap, const Assignment &incumbent,
                               const Deadline &deadline, double upper) {
  return Branching(qap, incumbent, deadline, upper).run();
}

} // namespace toposeat
