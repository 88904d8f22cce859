// SPDX-License-Identifier: MIT OR Apache-2.0
#include "exact/two_blocks.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "bounds/gilmore_lawler.hpp"
#include "bounds/prepared_qap.hpp"
#include "exact/branch_and_bound.hpp"

namespace toposeat {
namespace {

constexpr std::size_t most_devices = 16;
constexpr std::size_t most_in_block = 8;

using RankSet = std::uint32_t;

/// Calls `visit(set)` for every set of `size` of the first `ranks` ranks, in increasing order.
template <class Visit> void for_each_set(std::size_t ranks, std::size_t size, Visit visit) {
  for (RankSet set = (RankSet{1} << size) - 1; set < RankSet{1} << ranks;) {
    visit(set);
    // Gosper: the next larger number with as many bits.
    const RankSet low = set & (~set + 1);
    const RankSet ripple = set + low;
    set = (((ripple ^ set) >> 2U) >> std::countr_zero(set)) | ripple;
  }
}

/// Ranks that send and receive nothing: which of them a set has does not matter, only how many.
RankSet idle_ranks(const Qap &qap) {
  RankSet idle = 0;
  for (std::size_t r = 0; r < qap.size(); ++r) {
    bool talks = false;
    for (std::size_t s = 0; s < qap.size(); ++s)
      talks = talks || qap.flow(r, s) != 0 || qap.flow(s, r) != 0;
    idle |= (talks ? 0U : 1U) << r;
  }
  return idle;
}

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

/// Entries off the diagonal, rising; of a mirrored matrix those below the diagonal.
std::vector<double> rising_entries(const Matrix &matrix, bool mirrored) {
  std::vector<double> entries;
  for (std::size_t i = 0; i < matrix.n; ++i) {
    for (std::size_t j = 0; j < (mirrored ? i : matrix.n); ++j) {
      if (i != j)
        entries.push_back(matrix(i, j));
    }
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

/// Pairs of ranks by falling traffic, so that those inside a set are found in that order. Where
/// traffic and distances are the same in both directions, one pair stands for both.
class FallingPairs {
public:
  FallingPairs(const Matrix &flow, bool mirrored) {
    struct Pair {
      double flow;
      RankSet ends;
    };
    std::vector<Pair> pairs;
    for (std::size_t r = 0; r < flow.n; ++r) {
      for (std::size_t s = 0; s < (mirrored ? r : flow.n); ++s) {
        if (flow(r, s) > 0)
          pairs.push_back({(mirrored ? 2 : 1) * flow(r, s), RankSet{1} << r | RankSet{1} << s});
      }
    }
    std::sort(pairs.begin(), pairs.end(), [](const Pair &a, const Pair &b) {
      return a.flow != b.flow ? a.flow > b.flow : a.ends < b.ends;
    });
    words_ = (pairs.size() + 63) / 64;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      flow_.push_back(pairs[i].flow);
      for (RankSet ends = pairs[i].ends; ends != 0; ends &= ends - 1)
        touching_[index(std::countr_zero(ends))][i / 64] |= std::uint64_t{1} << i % 64;
    }
  }

  /// The heaviest of those that have no end in `others` on the first of `rising`, and so on.
  [[nodiscard]] double least_product(RankSet others, const std::vector<double> &rising) const {
    Words touched{};
    for (; others != 0; others &= others - 1) {
      const Words &each = touching_[index(std::countr_zero(others))];
      for (std::size_t w = 0; w < touched.size(); ++w)
        touched[w] |= each[w];
    }
    double sum = 0;
    std::size_t place = 0;
    for (std::size_t w = 0; w < words_; ++w) {
      const std::size_t left = flow_.size() - 64 * w;
      const std::uint64_t used = left < 64 ? (std::uint64_t{1} << left) - 1 : ~std::uint64_t{0};
      for (std::uint64_t inside = ~touched[w] & used; inside != 0; inside &= inside - 1)
        sum += flow_[64 * w + index(std::countr_zero(inside))] * rising[place++];
    }
    return sum;
  }

private:
  using Words = std::array<std::uint64_t, 4>; // 16 ranks have at most 240 pairs

  static std::size_t index(int bit) { return static_cast<std::size_t>(bit); }

  std::vector<double> flow_;
  std::array<Words, most_devices> touching_{}; // pairs with this rank
  std::size_t words_ = 0;
};

class TwoBlockSearch {
public:
  TwoBlockSearch(const Qap &original, const TwoBlocks &blocks, const Assignment &incumbent,
                 const Deadline &deadline)
      : original_(original), prepared_(original), qap_(prepared_.qap), blocks_(blocks),
        deadline_(deadline), best_(incumbent), best_cost_(qap_cost(qap_, incumbent)),
        between_(qap_.distance(blocks.devices[0][0], blocks.devices[1][0])),
        mirrored_(is_symmetric(qap_.flow) && is_symmetric(qap_.distance)),
        pairs_(qap_.flow, mirrored_), idle_(idle_ranks(original)) {
    for (std::size_t side = 0; side < 2; ++side) {
      inside_[side] = restricted(qap_.distance, blocks.devices[side]);
      rising_[side] = rising_entries(inside_[side], mirrored_);
    }
  }

  BoundedAnswer run() {
    // Searches find the best split sooner than the best order of its ranks.
    solve({0, first_ranks(best_)});
    list_splits();
    double open = unlimited;
    for (const Split &split : splits_) {
      if (split.bound > prunes_at())
        break;
      if (deadline_.expired() || !solve(split)) {
        open = split.bound;
        break;
      }
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

  /// Cost of what ranks of the set exchange with all others.
  double crossing(RankSet set) const {
    double bytes = 0;
    for (RankSet inside = set; inside != 0; inside &= inside - 1) {
      const auto r = static_cast<std::size_t>(std::countr_zero(inside));
      for (RankSet outside = all() & ~set; outside != 0; outside &= outside - 1) {
        const auto s = static_cast<std::size_t>(std::countr_zero(outside));
        bytes += qap_.flow(r, s) + qap_.flow(s, r);
      }
    }
    return between_ * bytes;
  }

  RankSet first_ranks(const Assignment &placement) const {
    RankSet first = 0;
    for (const std::uint32_t device : blocks_.devices[0])
      first |=
          RankSet{1} << (std::find(placement.begin(), placement.end(), device) - placement.begin());
    return first;
  }

  /// Of sets that differ in idle ranks alone, one has the lowest of these.
  bool has_lowest_idle(RankSet set) const {
    const RankSet mine = set & idle_;
    return mine == 0 || (idle_ & (2 * std::bit_floor(mine) - 1)) == mine;
  }

  void list_splits() {
    const bool equal = inside_[0].values == inside_[1].values;
    for_each_set(qap_.size(), inside_[0].n, [&](RankSet set) {
      if (equal && (set & 1U) == 0)
        return; // the other way round it is the same
      if (!has_lowest_idle(set))
        return;
      const RankSet rest = all() & ~set;
      double bound = crossing(set) + pairs_.least_product(rest, rising_[0]);
      if (bound > prunes_at())
        return;
      bound += pairs_.least_product(set, rising_[1]);
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

  /// False if the deadline ended it.
  bool solve(const Split &split) {
    const std::array ranks{members(split.first), members(all() & ~split.first)};
    const std::array parts{part(0, ranks[0]), part(1, ranks[1])};
    const double across = crossing(split.first);
    std::array bounds{gilmore_lawler_bound(parts[0]), gilmore_lawler_bound(parts[1])};
    if (across + bounds[0] + bounds[1] > prunes_at())
      return true;
    std::array<Assignment, 2> places;
    for (std::size_t side = 0; side < 2; ++side) {
      Assignment start(ranks[side].size());
      std::iota(start.begin(), start.end(), 0U);
      const double room = best_cost_ - across - bounds[1 - side];
      const BoundedAnswer best = branch_and_bound(parts[side], start, deadline_, room);
      bounds[side] = best.lower_bound;
      if (across + bounds[0] + bounds[1] > prunes_at())
        return true;
      if (!best.proved)
        return false; // the deadline has passed
      places[side] = best.placement;
    }
    best_cost_ = across + bounds[0] + bounds[1];
    for (std::size_t side = 0; side < 2; ++side) {
      for (std::size_t i = 0; i < ranks[side].size(); ++i)
        best_[ranks[side][i]] = blocks_.devices[side][places[side][i]];
    }
    return true;
  }

  const Qap &original_;
  PreparedQap prepared_;
  const Qap &qap_; // the prepared one
  const TwoBlocks &blocks_;
  const Deadline &deadline_;
  Assignment best_;
  double best_cost_;
  double between_;
  bool mirrored_; // traffic and distances are the same in both directions
  FallingPairs pairs_;
  RankSet idle_;
  std::array<Matrix, 2> inside_;
  std::array<std::vector<double>, 2> rising_;
  std::vector<Split> splits_;
};

} // namespace

std::optional<TwoBlocks> two_blocks(const Qap &qap) {
  const std::size_t n = qap.size();
  if (n <= most_in_block || n > most_devices || !plain(qap))
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
  const bool small = std::max(blocks.devices[0].size(), blocks.devices[1].size()) <= most_in_block;
  return small && !blocks.devices[1].empty() ? std::optional(blocks) : std::nullopt;
}

BoundedAnswer solve_two_blocks(const Qap &qap, const TwoBlocks &blocks, const Assignment &incumbent,
                               const Deadline &deadline) {
  return TwoBlockSearch(qap, blocks, incumbent, deadline).run();
}

} // namespace toposeat
