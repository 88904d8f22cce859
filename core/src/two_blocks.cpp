// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/two_blocks.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <utility>

#include "rank_sets.hpp"
#include "toposeat/dual_ascent.hpp"
#include "toposeat/prepared_qap.hpp"
#include "toposeat/small_qap.hpp"

namespace toposeat {
namespace {

constexpr std::size_t most_devices = 16;

bool plain(const Qap &qap) {
  return qap.allowed.empty() && !qap.has_second_term() &&
         std::all_of(qap.pinned.begin(), qap.pinned.end(),
                     [](std::uint32_t pin) { return pin == Qap::no_pin; });
}

std::vector<std::uint32_t> members(RankSet set) {
  std::vector<std::uint32_t> result;
  for (; set != 0; set &= set - 1)
    result.push_back(static_cast<std::uint32_t>(std::countr_zero(set)));
  return result;
}

Matrix restricted(const Matrix &matrix, const std::vector<std::uint32_t> &lines) {
  Matrix result(lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    for (std::size_t j = 0; j < lines.size(); ++j)
      result(i, j) = matrix(lines[i], lines[j]);
  }
  return result;
}

/// Entries off the diagonal, sorted.
template <class Order> std::vector<double> sorted_entries(const Matrix &matrix, Order order) {
  std::vector<double> entries;
  for (std::size_t i = 0; i < matrix.n; ++i) {
    for (std::size_t j = 0; j < matrix.n; ++j) {
      if (i != j)
        entries.push_back(matrix(i, j));
    }
  }
  std::sort(entries.begin(), entries.end(), order);
  return entries;
}

class TwoBlockSearch {
public:
  TwoBlockSearch(const Qap &original, const TwoBlocks &blocks, const Assignment &incumbent,
                 const Deadline &deadline)
      : original_(original), prepared_(original), qap_(prepared_.qap), blocks_(blocks),
        deadline_(deadline), best_(incumbent), best_cost_(qap_cost(qap_, incumbent)),
        between_(qap_.distance(blocks.devices[0][0], blocks.devices[1][0])), border_(qap_.flow) {
    for (std::size_t side = 0; side < 2; ++side) {
      inside_[side] = restricted(qap_.distance, blocks.devices[side]);
      rising_[side] = sorted_entries(inside_[side], std::less<>());
    }
    for (std::uint32_t r = 0; r < qap_.size(); ++r) {
      for (std::uint32_t s = 0; s < qap_.size(); ++s) {
        if (qap_.flow(r, s) > 0)
          flows_.push_back({qap_.flow(r, s), RankSet{1} << r | RankSet{1} << s});
      }
    }
    std::sort(flows_.begin(), flows_.end(), [](const auto &a, const auto &b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
  }

  BoundedAnswer run() {
    list_splits();
    double open = unlimited;
    for (const Split &split : splits_) {
      if (split.bound > prunes_at())
        break;
      if (deadline_.expired()) {
        open = split.bound;
        break;
      }
      solve(split);
    }
    BoundedAnswer answer{best_, qap_cost(original_, best_), 0, false};
    answer.lower_bound = std::min(answer.value, prepared_.original(std::min(best_cost_, open)));
    answer.proved = !(open < unlimited);
    if (answer.proved)
      answer.lower_bound = answer.value;
    return answer;
  }

private:
  struct Split {
    double bound;
    RankSet first; // ranks in block 0
  };

  double prunes_at() const {
    if (prepared_.step > 0)
      return best_cost_ - prepared_.step + 1e-3;
    return best_cost_ - 1e-10 * prepared_.original(best_cost_) / prepared_.scale;
  }

  RankSet all() const { return (RankSet{1} << qap_.size()) - 1; }

  double crossing(RankSet set) const {
    const Crossing bytes = border_.of(set);
    return between_ * (bytes.out + bytes.in);
  }

  /// The heaviest flows inside the set on the nearest pairs of the block.
  double least_product(std::size_t side, RankSet set) const {
    double sum = 0;
    std::size_t place = 0;
    for (const auto &[flow, ends] : flows_) {
      if ((ends & ~set) == 0)
        sum += flow * rising_[side][place++];
    }
    return sum;
  }

  void list_splits() {
    const int ranks = static_cast<int>(qap_.size());
    const bool alike = inside_[0].values == inside_[1].values;
    for_each_set(ranks, static_cast<int>(inside_[0].n), [&](RankSet set) {
      if (alike && (set & 1U) == 0)
        return; // the other way round it is the same
      const RankSet rest = all() & ~set;
      const double bound = crossing(set) + least_product(0, set) + least_product(1, rest);
      if (bound <= prunes_at())
        splits_.push_back({bound, set});
    });
    std::sort(splits_.begin(), splits_.end(), [](const Split &a, const Split &b) {
      return std::pair(a.bound, a.first) < std::pair(b.bound, b.first);
    });
  }

  Qap part(std::size_t side, const std::vector<std::uint32_t> &ranks) const {
    return {restricted(qap_.flow, ranks), inside_[side], ranks.size(),
            std::vector(ranks.size(), Qap::no_pin)};
  }

  void solve(const Split &split) {
    const std::array ranks{members(split.first), members(all() & ~split.first)};
    const std::array parts{part(0, ranks[0]), part(1, ranks[1])};
    const double across = crossing(split.first);
    std::array bounds{gilmore_lawler_bound(parts[0]), gilmore_lawler_bound(parts[1])};
    if (across + bounds[0] + bounds[1] > prunes_at())
      return;
    std::array<Assignment, 2> places;
    for (std::size_t side = 0; side < 2; ++side) {
      Assignment start(ranks[side].size());
      std::iota(start.begin(), start.end(), 0U);
      const double room = best_cost_ - across - bounds[1 - side];
      const BoundedAnswer best = solve_small_qap(parts[side], start, room);
      bounds[side] = best.value;
      if (across + bounds[0] + bounds[1] > prunes_at())
        return;
      places[side] = best.placement;
    }
    best_cost_ = across + bounds[0] + bounds[1];
    for (std::size_t side = 0; side < 2; ++side) {
      for (std::size_t i = 0; i < ranks[side].size(); ++i)
        best_[ranks[side][i]] = blocks_.devices[side][places[side][i]];
    }
  }

  const Qap &original_;
  PreparedQap prepared_;
  const Qap &qap_; // the prepared one
  const TwoBlocks &blocks_;
  const Deadline &deadline_;
  Assignment best_;
  double best_cost_;
  double between_;
  BorderTraffic border_;
  std::array<Matrix, 2> inside_;
  std::array<std::vector<double>, 2> rising_;
  std::vector<std::pair<double, RankSet>> flows_; // falling, with both ends
  std::vector<Split> splits_;
};

} // namespace

std::optional<TwoBlocks> two_blocks(const Qap &qap) {
  const std::size_t n = qap.size();
  if (n <= max_small_devices || n > most_devices || !plain(qap))
    return std::nullopt;
  const double widest = *std::max_element(qap.distance.values.begin(), qap.distance.values.end());
  TwoBlocks blocks;
  blocks.between = widest;
  for (std::uint32_t d = 0; d < n; ++d) {
    const bool with_first = d == 0 || qap.distance(0, d) < widest || qap.distance(d, 0) < widest;
    blocks.devices[with_first ? 0 : 1].push_back(d);
  }
  for (const std::uint32_t a : blocks.devices[0]) {
    for (const std::uint32_t b : blocks.devices[1]) {
      if (qap.distance(a, b) != widest || qap.distance(b, a) != widest)
        return std::nullopt;
    }
  }
  const bool small =
      std::max(blocks.devices[0].size(), blocks.devices[1].size()) <= max_small_devices;
  return small && !blocks.devices[1].empty() ? std::optional(blocks) : std::nullopt;
}

BoundedAnswer solve_two_blocks(const Qap &qap, const TwoBlocks &blocks, const Assignment &incumbent,
                               const Deadline &deadline) {
  return TwoBlockSearch(qap, blocks, incumbent, deadline).run();
}

} // namespace toposeat
