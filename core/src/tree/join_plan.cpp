// SPDX-License-Identifier: MIT OR Apache-2.0
#include "tree/join_plan.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "tree/rank_sets.hpp"

namespace toposeat {
namespace {

constexpr double about = 1.05;      // that many times the splits are as good
constexpr double most_pairs = 2500; // of groups and parts of them that are worth looking at

bool within(const SiblingCounts &part, const SiblingCounts &whole) {
  return std::equal(part.begin(), part.end(), whole.begin(), std::less_equal<>());
}

bool of_one_kind(const SiblingCounts &counts) {
  return std::count_if(counts.begin(), counts.end(), [](int count) { return count > 0; }) == 1;
}

} // namespace

JoinPlan::JoinPlan(int ranks, std::vector<SiblingKind> kinds)
    : ranks_(ranks), kinds_(std::move(kinds)) {
  double pairs = 1;
  std::size_t groups = 1;
  for (const SiblingKind &kind : kinds_) {
    pairs *= 0.5 * (kind.copies + 1) * (kind.copies + 2);
    groups *= static_cast<std::size_t>(kind.copies) + 1;
    if (pairs > most_pairs)
      return;
  }
  groups_.reserve(groups);
  for (std::size_t code = 0; code < groups; ++code) { // parts have smaller codes
    add_group(code);
    find_way(code);
  }
}

SiblingCounts JoinPlan::whole() const {
  SiblingCounts all;
  all.reserve(kinds_.size());
  for (const SiblingKind &kind : kinds_)
    all.push_back(kind.copies);
  return all;
}

Division JoinPlan::divided(const SiblingCounts &group) const {
  Division division;
  division.right =
      groups_.empty() ? largest_one(group) : groups_[groups_[code(group)].right].counts;
  division.left = group;
  for (std::size_t k = 0; k < group.size(); ++k)
    division.left[k] -= division.right[k];
  division.interchangeable = division.left == division.right || of_one_kind(group);
  const auto size = [&](const SiblingCounts &counts) {
    int all = 0;
    for (std::size_t k = 0; k < counts.size(); ++k)
      all += counts[k] * kinds_[k].size;
    return all;
  };
  if (size(division.left) < size(division.right))
    std::swap(division.left, division.right);
  return division;
}

std::size_t JoinPlan::code(const SiblingCounts &counts) const {
  std::size_t code = 0;
  for (std::size_t k = kinds_.size(); k-- > 0;)
    code = code * (static_cast<std::size_t>(kinds_[k].copies) + 1) +
           static_cast<std::size_t>(counts[k]);
  return code;
}

void JoinPlan::add_group(std::size_t code) {
  Group group;
  group.counts.reserve(kinds_.size());
  for (const SiblingKind &kind : kinds_) {
    const auto radix = static_cast<std::size_t>(kind.copies) + 1;
    group.counts.push_back(static_cast<int>(code % radix));
    group.size += group.counts.back() * kind.size;
    code /= radix;
  }
  groups_.push_back(std::move(group));
}

void JoinPlan::find_way(std::size_t code) {
  Group &group = groups_[code];
  if (std::accumulate(group.counts.begin(), group.counts.end(), 0) < 2)
    return;
  group.splits = unlimited;
  for (std::size_t right = 1; right < code; ++right) {
    if (2 * groups_[right].size > group.size || !within(groups_[right].counts, group.counts))
      continue;
    const std::size_t left = code - right;
    const double splits = groups_[right].splits + (left == right ? 0 : groups_[left].splits) +
                          splits_between(left, right);
    // Of all ranks, a set on one side of the root leaves one for the other side. If that does not
    // fit there, it need not be split: the more, the larger the sets that are known first.
    const bool better =
        group.size == ranks_ && group.right != 0
            ? (groups_[right].size > groups_[group.right].size ? splits < group.splits * about
                                                               : splits * about < group.splits)
            : splits < group.splits;
    if (better) {
      group.splits = splits;
      group.right = right;
    }
  }
}

/// Of all sets of the size of both.
double JoinPlan::splits_between(std::size_t left, std::size_t right) const {
  const int few = groups_[right].size;
  const int both = groups_[left].size + few;
  const bool halved = left == right || of_one_kind(groups_[left + right].counts);
  return static_cast<double>(set_count(ranks_, both) * set_count(both, few)) *
         (halved ? static_cast<double>(few) / both : 1.0);
}

/// Where there are too many groups: one after the other, small ones first.
SiblingCounts JoinPlan::largest_one(const SiblingCounts &group) const {
  SiblingCounts one(group.size());
  std::size_t largest = group.size();
  for (std::size_t k = 0; k < group.size(); ++k) {
    if (group[k] > 0 && (largest == group.size() || kinds_[k].size > kinds_[largest].size))
      largest = k;
  }
  one[largest] = 1;
  return one;
}

} // namespace toposeat
