// SPDX-License-Identifier: MIT OR Apache-2.0
#include "division/multisection.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "division/division.hpp"
#include "division/part_graph.hpp"

namespace toposeat {
namespace {

PartGraph whole(const RankGraph &graph) {
  // Scaled so that single precision neither overflows nor underflows, whatever the bytes are.
  double heaviest = 0;
  for (const double weight : graph.weight)
    heaviest = std::max(heaviest, weight);
  const double scale = heaviest > 0 ? 1e6 / heaviest : 1;
  PartGraph part;
  part.begin = graph.begin;
  part.target = graph.target;
  part.weight.reserve(graph.weight.size());
  for (const double weight : graph.weight)
    part.weight.push_back(static_cast<float>(weight * scale));
  part.size.assign(graph.size(), 1);
  return part;
}

/// Ranks that share a part of the machine, and what they say to each other.
struct Group {
  PartGraph graph;
  std::vector<std::uint32_t> rank_of; // of each vertex
};

class Multisection {
public:
  Multisection(const RankGraph &graph, const SlotTree &tree, std::uint64_t seed, Effort effort,
               const Deadline &deadline, const std::function<void(double)> &progress,
               const Assignment &start)
      : tree_(tree), deadline_(deadline), progress_(progress), start_(start),
        divider_(seed, effort == Effort::thorough, deadline), slot_of_rank_(graph.size()) {
    Group group{whole(graph), std::vector<std::uint32_t>(graph.size())};
    std::iota(group.rank_of.begin(), group.rank_of.end(), 0U);
    open_.emplace_back(std::move(group), 0);
    const auto last = std::max_element(tree.order.begin(), tree.order.end());
    place_of_slot_.resize(last == tree.order.end() ? 0 : *last + std::size_t{1});
    for (std::uint32_t i = 0; i < tree.order.size(); ++i)
      place_of_slot_[tree.order[i]] = i;
  }

  Assignment run() {
    while (!open_.empty()) {
      const auto [group, part] = std::move(open_.back());
      open_.pop_back();
      settle(group, part);
    }
    return std::move(slot_of_rank_);
  }

private:
  void report() {
    const std::size_t step = slot_of_rank_.size() / 100 + 1;
    if (progress_ && seated_ / step > reported_ / step) {
      reported_ = seated_;
      progress_(static_cast<double>(seated_) / static_cast<double>(slot_of_rank_.size()));
    }
  }

  /// Seats the ranks of a part that is not divided, or deals them to its children.
  void settle(const Group &group, std::uint32_t index) {
    const SlotTree::Part &part = tree_.parts[index];
    if (part.children == 0 || group.rank_of.size() < 2 || deadline_.expired()) {
      for (std::size_t v = 0; v < group.rank_of.size(); ++v)
        slot_of_rank_[group.rank_of[v]] = tree_.order[part.begin + v];
      seated_ += group.rank_of.size();
      report();
      return;
    }
    std::vector<std::uint32_t> capacity;
    capacity.reserve(part.children);
    for (std::uint32_t c = 0; c < part.children; ++c)
      capacity.push_back(tree_.parts[part.first_child + c].size());
    const std::vector<std::uint32_t> child =
        divider_.divide(group.graph, capacity, started(group, part));
    std::vector<std::vector<std::uint32_t>> members(part.children);
    for (std::uint32_t v = 0; v < child.size(); ++v)
      members[child[v]].push_back(v);
    for (std::uint32_t c = 0; c < part.children; ++c) {
      if (members[c].empty())
        continue;
      Group below{divider_.induced(group.graph, members[c]), {}};
      for (const std::uint32_t v : members[c])
        below.rank_of.push_back(group.rank_of[v]);
      open_.emplace_back(std::move(below), part.first_child + c);
    }
  }

  /// The child of a part that each rank is in at the start; empty if they are not all in the part.
  [[nodiscard]] std::vector<std::uint32_t> started(const Group &group,
                                                   const SlotTree::Part &part) const {
    std::vector<std::uint32_t> child;
    if (start_.empty())
      return child;
    const auto first = tree_.parts.begin() + part.first_child;
    for (const std::uint32_t rank : group.rank_of) {
      const std::uint32_t place = place_of_slot_[start_[rank]];
      if (place < part.begin || place >= part.end)
        return {};
      const auto next = std::upper_bound(
          first, first + part.children, place,
          [](std::uint32_t at, const SlotTree::Part &each) { return at < each.begin; });
      child.push_back(static_cast<std::uint32_t>(next - first) - 1);
    }
    return child;
  }

  const SlotTree &tree_;
  Deadline deadline_;
  const std::function<void(double)> &progress_;
  const Assignment &start_;
  std::vector<std::uint32_t> place_of_slot_; // in the order of the tree
  Divider divider_;
  std::size_t seated_ = 0;
  std::size_t reported_ = 0;
  Assignment slot_of_rank_;
  std::vector<std::pair<Group, std::uint32_t>> open_;
};

} // namespace

Assignment multisection(const RankGraph &graph, const SlotTree &tree, std::uint64_t seed,
                        Effort effort, const Deadline &deadline,
                        const std::function<void(double)> &progress, const Assignment &start) {
  if (graph.size() > tree.order.size())
    throw std::invalid_argument("more ranks than slots");
  return Multisection(graph, tree, seed, effort, deadline, progress, start).run();
}

} // namespace toposeat
