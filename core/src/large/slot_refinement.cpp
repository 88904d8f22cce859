// SPDX-License-Identifier: MIT OR Apache-2.0
#include "large/slot_refinement.hpp"

#include <algorithm>
#include <vector>

namespace toposeat {
namespace {

constexpr std::uint32_t nobody = 0xffffffffU;
constexpr int most_passes = 20;
constexpr std::size_t most_groups = 24;          // tried for a rank: those that promise most
constexpr std::size_t most_leaves = 64;          // priced for a rank: more only around hubs
constexpr std::uint64_t work_per_arc = 150;      // priced; 10 to 30 are usual without hubs
constexpr std::uint64_t clock_every = 1U << 16U; // edges priced between two looks at the clock

/// Leaves of the tree by slot, and slots by leaf.
class Leaves {
public:
  explicit Leaves(const SlotTree &tree) : tree_(tree), leaf_of_slot_(tree.order.size()) {
    for (std::uint32_t k = 0; k < tree.parts.size(); ++k) {
      const SlotTree::Part &part = tree.parts[k];
      for (std::uint32_t i = part.begin; part.children == 0 && i < part.end; ++i)
        leaf_of_slot_[tree.order[i]] = k;
    }
  }
  [[nodiscard]] std::uint32_t of(std::uint32_t slot) const { return leaf_of_slot_[slot]; }
  [[nodiscard]] std::span<const std::uint32_t> slots(std::uint32_t leaf) const {
    const SlotTree::Part &part = tree_.parts[leaf];
    return std::span(tree_.order).subspan(part.begin, part.size());
  }
  [[nodiscard]] std::size_t parts() const { return tree_.parts.size(); }

private:
  const SlotTree &tree_;
  std::vector<std::uint32_t> leaf_of_slot_;
};

template <class Machine> class Refiner {
public:
  Refiner(const RankGraph &graph, const Machine &machine, const SlotTree &tree, Assignment &slots,
          const Deadline &deadline)
      : graph_(graph), machine_(machine), leaves_(tree), slots_(slots), deadline_(deadline),
        rank_at_(machine.slots(), nobody), cost_(graph.size()), active_(graph.size(), 1),
        place_(leaves_.parts(), 0) {
    for (std::uint32_t r = 0; r < graph.size(); ++r)
      rank_at_[slots[r]] = r;
    for (std::uint32_t r = 0; r < graph.size(); ++r)
      cost_[r] = cost_at(r, slots[r]);
  }

  std::uint64_t run() {
    const std::uint64_t most_work = work_per_arc * (graph_.target.size() + graph_.size());
    for (int pass = 0; pass < most_passes; ++pass) {
      const std::uint64_t before = exchanges_;
      for (std::uint32_t r = 0; r < graph_.size(); ++r) {
        if (active_[r] != 0)
          improve(r);
        if (out_of_time() || priced_ > most_work)
          return exchanges_;
      }
      if (exchanges_ - before <= graph_.size() / 1000)
        break;
    }
    return exchanges_;
  }

private:
  struct Near {
    double weight;      // to the ranks there
    std::uint32_t slot; // of one of them
    std::uint32_t leaf;
  };
  struct Group {
    double gain; // of the rank, if it alone moved there
    std::uint32_t slot;
    std::uint32_t leaf;
  };

  [[nodiscard]] double cost_at(std::uint32_t r, std::uint32_t slot) const {
    double cost = 0;
    for (std::uint32_t e = graph_.begin[r]; e < graph_.begin[r + std::size_t{1}]; ++e)
      cost += graph_.weight[e] * machine_.distance(slot, slots_[graph_.target[e]]);
    priced_ += graph_.begin[r + std::size_t{1}] - graph_.begin[r];
    return cost;
  }

  /// By edges priced, not by ranks: one rank may talk to all others.
  bool out_of_time() {
    if (!late_ && priced_ >= look_at_) {
      late_ = deadline_.expired();
      look_at_ = priced_ + clock_every;
    }
    return late_;
  }

  void improve(std::uint32_t r) {
    active_[r] = 0;
    collect_groups(r);
    for (const Group &group : groups_) {
      if (out_of_time() || try_group(r, group))
        return;
    }
  }

  /// Leaves of the neighbours that would suit the rank better than its own, best first.
  void collect_groups(std::uint32_t r) {
    collect_leaves(r);
    groups_.clear();
    for (const Near &near : near_) {
      // Where the leaf has another slot than the neighbour's, the neighbour stays near.
      const auto inside = leaves_.slots(near.leaf);
      const std::uint32_t slot =
          inside.size() == 1 || inside[0] != near.slot ? inside[0] : inside[1];
      if (out_of_time())
        break;
      const double gain = cost_[r] - cost_at(r, slot);
      if (gain > 1e-9 * cost_[r] || inside.size() == 1)
        groups_.push_back({gain, slot, near.leaf});
    }
    std::sort(groups_.begin(), groups_.end(), [](const Group &a, const Group &b) {
      return a.gain > b.gain || (a.gain == b.gain && a.leaf < b.leaf);
    });
    if (groups_.size() > most_groups)
      groups_.resize(most_groups);
  }

  /// Leaves of the neighbours but the rank's own; of very many, those with the most traffic.
  void collect_leaves(std::uint32_t r) {
    near_.clear();
    const std::uint32_t own = leaves_.of(slots_[r]);
    for (std::uint32_t e = graph_.begin[r]; e < graph_.begin[r + std::size_t{1}]; ++e) {
      const std::uint32_t slot = slots_[graph_.target[e]];
      const std::uint32_t leaf = leaves_.of(slot);
      if (leaf == own)
        continue;
      std::size_t &at = place_[leaf];
      if (at >= near_.size() || near_[at].leaf != leaf) {
        at = near_.size();
        near_.push_back({0, slot, leaf});
      }
      near_[at].weight += graph_.weight[e];
    }
    if (near_.size() <= most_leaves)
      return;
    std::sort(near_.begin(), near_.end(), [](const Near &a, const Near &b) {
      return a.weight > b.weight || (a.weight == b.weight && a.leaf < b.leaf);
    });
    near_.resize(most_leaves);
  }

  /// Exchanges with whoever in the leaf makes it pay most.
  bool try_group(std::uint32_t r, const Group &group) {
    double best = 1e-9 * cost_[r];
    std::uint32_t best_slot = nobody;
    for (const std::uint32_t slot : leaves_.slots(group.leaf)) {
      if (out_of_time())
        break;
      const double gain = exchange_gain(r, slot);
      if (gain > best) {
        best = gain;
        best_slot = slot;
      }
    }
    if (best_slot == nobody)
      return false;
    exchange(r, best_slot);
    return true;
  }

  [[nodiscard]] double exchange_gain(std::uint32_t r, std::uint32_t slot) const {
    const std::uint32_t other = rank_at_[slot];
    const std::uint32_t here = slots_[r];
    double gain = cost_[r] - cost_at(r, slot);
    if (other == nobody)
      return gain;
    gain += cost_[other] - cost_at(other, here);
    // Both sums take the edge between the two as if one of them stayed: it does not shorten.
    for (std::uint32_t e = graph_.begin[r]; e < graph_.begin[r + std::size_t{1}]; ++e) {
      if (graph_.target[e] == other)
        gain -= 2 * graph_.weight[e] * machine_.distance(here, slot);
    }
    return gain;
  }

  void exchange(std::uint32_t r, std::uint32_t slot) {
    const std::uint32_t other = rank_at_[slot];
    const std::uint32_t here = slots_[r];
    relocate(r, slot);
    if (other != nobody)
      relocate(other, here);
    rank_at_[slot] = r;
    rank_at_[here] = other;
    ++exchanges_;
  }

  /// Wakes the neighbours, and adds to their costs what changes: a sum anew of each would take the
  /// square of the edges around a rank that talks to all.
  void relocate(std::uint32_t r, std::uint32_t slot) {
    const std::uint32_t here = slots_[r];
    slots_[r] = slot;
    cost_[r] = cost_at(r, slot);
    active_[r] = 1;
    for (std::uint32_t e = graph_.begin[r]; e < graph_.begin[r + std::size_t{1}]; ++e) {
      const std::uint32_t u = graph_.target[e];
      cost_[u] += graph_.weight[e] *
                  (machine_.distance(slot, slots_[u]) - machine_.distance(here, slots_[u]));
      active_[u] = 1;
    }
  }

  const RankGraph &graph_;
  const Machine &machine_;
  Leaves leaves_;
  Assignment &slots_;
  Deadline deadline_;
  mutable std::uint64_t priced_ = 0; // edges
  std::uint64_t look_at_ = 0;        // the clock, at so many
  bool late_ = false;
  std::vector<std::uint32_t> rank_at_;
  std::vector<double> cost_;
  std::vector<std::uint8_t> active_;
  std::vector<Near> near_;
  std::vector<std::size_t> place_; // of a leaf among those
  std::vector<Group> groups_;
  std::uint64_t exchanges_ = 0;
};

} // namespace

double large_cost(const RankGraph &graph, const LargeMachine &machine, const Assignment &slots) {
  return std::visit(
      [&](const auto &each) {
        double cost = 0;
        for (std::uint32_t r = 0; r < graph.size(); ++r) {
          for (std::uint32_t e = graph.begin[r]; e < graph.begin[r + std::size_t{1}]; ++e)
            cost += graph.weight[e] * each.distance(slots[r], slots[graph.target[e]]);
        }
        return cost / 2; // every edge was seen from both ends
      },
      machine);
}

std::uint64_t refine_slots(const RankGraph &graph, const LargeMachine &machine,
                           const SlotTree &tree, Assignment &slots, const Deadline &deadline) {
  if (deadline.expired())
    return 0;
  return std::visit(
      [&](const auto &each) { return Refiner(graph, each, tree, slots, deadline).run(); }, machine);
}

} // namespace toposeat
