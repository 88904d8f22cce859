// SPDX-License-Identifier: MIT OR Apache-2.0
#include "fitting_sets.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "tree_placer.hpp"

namespace toposeat {
namespace {

constexpr std::size_t word_ranks = 6; // sets of the first ranks stand in one word
constexpr std::size_t word_bits = std::size_t{1} << word_ranks;
constexpr double unknown = -1;
constexpr double close =
    0.02; // of bounds: it is only asked whether less than the upper one will do
constexpr std::size_t between_looks = 32; // sets joined before it is asked whether any is missing

using Word = std::uint64_t;

constexpr std::size_t most_words = std::size_t{1} << (max_set_ranks - word_ranks);

std::size_t word_count(int ranks) {
  const auto more = static_cast<std::size_t>(std::max(ranks, static_cast<int>(word_ranks)));
  return std::size_t{1} << (more - word_ranks);
}

/// All sets of a size: the words for fewer ranks are the first ones.
const Word *sets_of_size(int size) {
  static const auto words = [] {
    std::vector<std::array<Word, most_words>> of_size(max_set_ranks + 1);
    for (std::size_t set = 0; set < most_words * word_bits; ++set)
      of_size[static_cast<std::size_t>(std::popcount(set))][set / word_bits] |= Word{1}
                                                                                << set % word_bits;
    return of_size;
  }();
  return words[static_cast<std::size_t>(size)].data();
}

/// Of the sets in a word, those without any rank of the given one.
constexpr auto disjoint = [] {
  std::array<Word, word_bits> masks{};
  for (std::size_t set = 0; set < word_bits; ++set) {
    for (std::size_t other = 0; other < word_bits; ++other) {
      if ((set & other) == 0)
        masks[set] |= Word{1} << other;
    }
  }
  return masks;
}();

/// Calls `visit(set)` for every set.
template <class Visit> void for_each(const SetBits &bits, Visit visit) {
  for (std::size_t w = 0; w < bits.size(); ++w) {
    for (Word rest = bits[w]; rest != 0; rest &= rest - 1)
      visit(static_cast<RankSet>(w * word_bits + static_cast<std::size_t>(std::countr_zero(rest))));
  }
}

bool empty(const SetBits &bits) {
  return std::all_of(bits.begin(), bits.end(), [](Word word) { return word == 0; });
}

/// Adds the unions of `part` with those of `others` that have no common rank with it.
void add_unions(RankSet part, const SetBits &others, SetBits &unions) {
  const std::size_t low = part % word_bits;
  const std::size_t high = part / word_bits;
  const std::size_t free = (others.size() - 1) & ~high;
  for (std::size_t w = free;; w = (w - 1) & free) {
    unions[w | high] |= (others[w] & disjoint[low]) << low;
    if (w == 0)
      break;
  }
}

/// Those of the wanted sets that are a union of a set of `few` and one of `others`.
void unite(const SetBits &few, const SetBits &others, const SetBits &wanted, SetBits &unions) {
  std::fill(unions.begin(), unions.end(), 0);
  const auto complete = [&] {
    for (std::size_t w = 0; w < unions.size(); ++w) {
      if ((wanted[w] & ~unions[w]) != 0)
        return false;
    }
    return true;
  };
  std::size_t done = 0;
  for (std::size_t w = 0; w < few.size(); ++w) {
    for (Word rest = few[w]; rest != 0; rest &= rest - 1) {
      add_unions(
          static_cast<RankSet>(w * word_bits + static_cast<std::size_t>(std::countr_zero(rest))),
          others, unions);
      if (++done % between_looks == 0 && complete()) {
        unions = wanted;
        return;
      }
    }
  }
  for (std::size_t w = 0; w < unions.size(); ++w)
    unions[w] &= wanted[w];
}

} // namespace

FittingSets::FittingSets(const CutTree &tree, const Qap &traffic)
    : tree_(tree), traffic_(traffic), ranks_(static_cast<int>(tree.devices)), border_(traffic.flow),
      numbers_(set_numbers()), stages_(tree, traffic, false),
      fitting_(stages_.size(), SetBits(word_count(ranks_))), own_(stages_.size()) {
  for (int number = 0; number < static_cast<int>(stages_.size()); ++number) {
    const Stage &stage = stages_[number];
    if (!stage.terms.empty() || stage.has_pins)
      own_[index(number)].assign(set_count(ranks_, stage.size), unknown);
    const Word *all = sets_of_size(stage.size);
    within_.emplace_back(all, all + word_count(ranks_));
    if (ranks_ < static_cast<int>(word_ranks))
      within_.back()[0] &= (Word{1} << (Word{1} << ranks_)) - 1;
  }
}

/// Of the node's own links; infinite where pins do not fit.
double FittingSets::own_term(int number, RankSet set) {
  const Stage &stage = stages_[number];
  if (own_[index(number)].empty())
    return 0;
  double &known = own_[index(number)][numbers_[set]];
  if (known == unknown) {
    const bool barred =
        stage.has_pins && stage.nodes == 1 && (set & stages_.all_pinned()) != stage.pinned;
    known = barred ? unlimited : largest_of(stage.terms, border_.of(set));
  }
  return known;
}

void FittingSets::keep_within(int number, double limit) {
  if (own_[index(number)].empty())
    return;
  for_each(fitting_[index(number)], [&](RankSet set) {
    const double term = own_term(number, set);
    if (term > limit) {
      next_ = std::min(next_, term);
      fitting_[index(number)][set / word_bits] &= ~(Word{1} << set % word_bits);
    }
  });
}

/// Any set of ranks that fit on a leaf each.
void FittingSets::fill_flat(const Stage &stage, double limit, SetBits &bits) {
  RankSet able = 0;
  for (int r = 0; r < ranks_; ++r) {
    const double term = largest_of(stages_[stage.leaf].terms, border_.of(RankSet{1} << r));
    if (term <= limit) {
      able |= RankSet{1} << r;
    } else {
      next_ = std::min(next_, term);
    }
  }
  const auto barred = static_cast<std::size_t>(~able % word_bits);
  for (std::size_t w = 0; w < bits.size(); ++w) {
    if ((w & ~(able / word_bits)) != 0) {
      bits[w] = 0;
    } else {
      bits[w] &= disjoint[barred];
    }
  }
}

void FittingSets::fill_stage(int number, double limit) {
  const Stage &stage = stages_[number];
  SetBits &bits = fitting_[index(number)];
  bits = within_[index(number)];
  keep_completing(number, bits);
  if (stage.leaf >= 0) {
    fill_flat(stage, limit, bits);
  } else if (stage.left >= 0) {
    const bool swap = stages_[stage.left].size < stages_[stage.right].size;
    const int few = swap ? stage.left : stage.right;
    const int others = swap ? stage.right : stage.left;
    unite(fitting_[index(few)], fitting_[index(others)], SetBits(bits), bits);
  }
  keep_within(number, limit);
}

/// Of a part of the root, only sets matter that the other part completes: if that is filled
/// already.
void FittingSets::keep_completing(int number, SetBits &bits) const {
  const Stage &root = stages_[stages_.of_node(0)];
  const int other = number == root.left ? root.right : root.left;
  if (number != std::max(root.left, root.right) || other == number)
    return;
  const SetBits &filled = fitting_[index(other)];
  const auto all = static_cast<RankSet>((std::uint64_t{1} << ranks_) - 1);
  for_each(SetBits(bits), [&](RankSet set) {
    const RankSet rest = all ^ set;
    if ((filled[rest / word_bits] >> rest % word_bits & 1U) == 0)
      bits[set / word_bits] &= ~(Word{1} << set % word_bits);
  });
}

bool FittingSets::fill(double limit) {
  next_ = unlimited;
  const int root = stages_.of_node(0);
  for (int number = 0; number < root; ++number) {
    fill_stage(number, limit);
    if (empty(fitting_[index(number)]))
      return false;
  }
  if (stages_[root].left < 0) {
    fill_stage(root, limit);
    return !empty(fitting_[index(root)]);
  }
  return root_right().has_value();
}

/// A set for the right part of the root, with all other ranks in the left one.
std::optional<RankSet> FittingSets::root_right() const {
  const Stage &root = stages_[stages_.of_node(0)];
  const auto all = static_cast<RankSet>((std::uint64_t{1} << ranks_) - 1);
  const SetBits &rights = fitting_[index(root.right)];
  for (std::size_t w = 0; w < rights.size(); ++w) {
    for (Word rest = rights[w]; rest != 0; rest &= rest - 1) {
      const auto right =
          static_cast<RankSet>(w * word_bits + static_cast<std::size_t>(std::countr_zero(rest)));
      if (fits(root.left, all ^ right))
        return right;
    }
  }
  return std::nullopt;
}

RankSet FittingSets::right_part(int number, RankSet set) const {
  if (number == stages_.of_node(0))
    return root_right().value_or(0); // there is one: a placement was found
  const Stage &stage = stages_[number];
  const SubsetSpread spread(set);
  for (const std::uint16_t pattern :
       subset_patterns(stage.size, stages_[stage.right].size, false)) {
    const RankSet right = spread(pattern);
    if (fits(stage.right, right) && fits(stage.left, set ^ right))
      return right;
  }
  return 0; // not reached: the set fits
}

Assignment FittingSets::placement() const {
  return TreePlacer(tree_, traffic_, stages_,
                    [this](int number, RankSet set) { return right_part(number, set); })
      .place();
}

double FittingSets::largest_term(const Assignment &placement) {
  double largest = 0;
  for (const CutTree::Node &node : tree_.nodes) {
    RankSet set = 0;
    for (std::size_t r = 0; r < placement.size(); ++r) {
      if ((node.devices >> placement[r] & 1U) != 0)
        set |= RankSet{1} << r;
    }
    largest = std::max(largest, largest_of(node.terms, border_.of(set)));
  }
  return largest;
}

std::optional<TreeAnswer> FittingSets::least(double upper) {
  std::optional<TreeAnswer> best;
  double least = 0; // no placement has less
  double value = upper;
  while (value == unlimited || less_by_tolerance(least, value)) {
    const double middle = (least + value) / 2;
    const bool last = value - least < close * value || (!best && least == 0);
    const double limit = last ? std::nextafter(value, 0.0) : middle;
    if (fill(limit)) {
      best = TreeAnswer{placement(), 0};
      value = best->value = largest_term(best->placement);
      within_ = fitting_;
    } else if (last) {
      break;
    } else {
      least = next_;
    }
  }
  return best;
}

} // namespace toposeat
