// SPDX-License-Identifier: MIT OR Apache-2.0
#include "loads/exchange_loads.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "toposeat/problem/congestion.hpp"
#include "toposeat/tree/cut_tree.hpp"

namespace toposeat {
namespace {

/// On any machine.
class LinkExchanges final : public ExchangeLoads {
public:
  LinkExchanges(const Network &network, const RankTraffic &traffic, double limit_s)
      : loads_(network, traffic, first(traffic.ranks)), limit_s_(limit_s) {}

  void stand_on(const Assignment &placement) override {
    const auto ranks = static_cast<std::uint32_t>(loads_.device_of_rank().size());
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      if (loads_.device_of_rank()[rank] != placement[rank])
        loads_.move(rank, placement[rank]);
    }
    loads_.commit();
    placement_ = placement;
  }

  [[nodiscard]] LoadFigures here() const override {
    LoadFigures figures{loads_.max_s(), loads_.mean_s()};
    for (const double seconds : loads_.seconds())
      figures.over_s += std::max(0.0, seconds - limit_s_);
    return figures;
  }

  LoadFigures exchanged(std::size_t r, std::size_t s) override {
    loads_.exchange(placement_[r], placement_[s]);
    const LoadFigures figures = here();
    loads_.undo();
    return figures;
  }

private:
  static Assignment first(std::uint32_t ranks) {
    Assignment placement(ranks);
    std::iota(placement.begin(), placement.end(), 0U);
    return placement;
  }

  LinkLoads loads_;
  double limit_s_;
  Assignment placement_;
};

/// Where every link cuts the machine in two: its load depends on which ranks are on one side.
class TreeExchanges final : public ExchangeLoads {
public:
  TreeExchanges(const CutTree &tree, const Qap &qap, double limit_s)
      : flow_(qap.flow), nodes_(tree.nodes.size()), parent_(nodes_, 0), terms_(nodes_),
        above_(tree.devices, 0), limit_s_(limit_s), sent_(qap.size(), 0), received_(qap.size(), 0),
        to_(qap.size() * nodes_), from_(qap.size() * nodes_), out_(nodes_), in_(nodes_),
        figures_(nodes_), by_load_(nodes_) {
    std::size_t links = 0;
    for (std::size_t node = 0; node < nodes_; ++node) {
      for (const std::uint32_t child : tree.nodes[node].children)
        parent_[child] = node;
      terms_[node] = tree.nodes[node].terms;
      links += terms_[node].size();
      for (std::uint64_t rest = tree.nodes[node].devices; rest != 0; rest &= rest - 1)
        above_[static_cast<std::size_t>(std::countr_zero(rest))] |= std::uint64_t{1} << node;
    }
    share_ = links > 0 ? 1 / static_cast<double>(links) : 0;
    for (std::size_t r = 0; r < qap.size(); ++r) {
      for (std::size_t s = 0; s < qap.size(); ++s) {
        sent_[r] += flow_(r, s);
        received_[s] += flow_(r, s);
      }
    }
  }

  void stand_on(const Assignment &placement) override {
    placement_ = placement;
    sum_below_nodes();
    std::fill(out_.begin(), out_.end(), 0.0);
    std::fill(in_.begin(), in_.end(), 0.0);
    for (std::size_t r = 0; r < placement.size(); ++r) {
      for (std::uint64_t rest = above_[placement[r]]; rest != 0; rest &= rest - 1) {
        const auto node = static_cast<std::size_t>(std::countr_zero(rest));
        out_[node] += sent_[r] - to_[r * nodes_ + node];
        in_[node] += received_[r] - from_[r * nodes_ + node];
      }
    }
    here_ = {};
    for (std::size_t node = 0; node < nodes_; ++node) {
      figures_[node] = figures(node, out_[node], in_[node]);
      here_.max_s = std::max(here_.max_s, figures_[node].max_s);
      here_.mean_s += figures_[node].mean_s;
      here_.over_s += figures_[node].over_s;
    }
    std::iota(by_load_.begin(), by_load_.end(), std::size_t{0});
    std::sort(by_load_.begin(), by_load_.end(),
              [&](std::size_t a, std::size_t b) { return figures_[a].max_s > figures_[b].max_s; });
  }

  [[nodiscard]] LoadFigures here() const override { return here_; }

  LoadFigures exchanged(std::size_t r, std::size_t s) override {
    const std::uint64_t above_r = above_[placement_[r]];
    const std::uint64_t above_s = above_[placement_[s]];
    LoadFigures result = here_;
    result.max_s = largest_but(above_r ^ above_s);
    for (std::uint64_t rest = above_r & ~above_s; rest != 0; rest &= rest - 1)
      change(static_cast<std::size_t>(std::countr_zero(rest)), r, s, result);
    for (std::uint64_t rest = above_s & ~above_r; rest != 0; rest &= rest - 1)
      change(static_cast<std::size_t>(std::countr_zero(rest)), s, r, result);
    return result;
  }

private:
  /// What each rank sends to, and receives from, the ranks below each node; parents come before
  /// their children.
  void sum_below_nodes() {
    std::fill(to_.begin(), to_.end(), 0.0);
    std::fill(from_.begin(), from_.end(), 0.0);
    for (std::size_t r = 0; r < placement_.size(); ++r) {
      double *to = to_.data() + r * nodes_;
      double *from = from_.data() + r * nodes_;
      for (std::size_t k = 0; k < placement_.size(); ++k) {
        const std::size_t leaf = leaf_above(placement_[k]);
        to[leaf] += flow_(r, k);
        from[leaf] += flow_(k, r);
      }
      for (std::size_t node = nodes_ - 1; node > 0; --node) {
        to[parent_[node]] += to[node];
        from[parent_[node]] += from[node];
      }
    }
  }

  /// The last node with the device below it: that is the smallest.
  [[nodiscard]] std::size_t leaf_above(std::uint32_t device) const {
    return static_cast<std::size_t>(63 - std::countl_zero(above_[device]));
  }

  [[nodiscard]] LoadFigures figures(std::size_t node, double out, double in) const {
    LoadFigures result;
    for (const CutTerm &term : terms_[node]) {
      const double seconds = std::max({term.out * out, term.in * in, term.both * (out + in)});
      result.max_s = std::max(result.max_s, seconds);
      result.mean_s += share_ * seconds;
      result.over_s += std::max(0.0, seconds - limit_s_);
    }
    return result;
  }

  [[nodiscard]] double largest_but(std::uint64_t changed) const {
    for (const std::size_t node : by_load_) {
      if ((changed >> node & 1U) == 0)
        return figures_[node].max_s;
    }
    return 0;
  }

  /// Rank x leaves what is below the node, y joins it.
  void change(std::size_t node, std::size_t x, std::size_t y, LoadFigures &result) const {
    const double to_x = to_[x * nodes_ + node];
    const double from_x = from_[x * nodes_ + node];
    const double to_y = to_[y * nodes_ + node] - flow_(y, x);
    const double from_y = from_[y * nodes_ + node] - flow_(x, y);
    const double out = out_[node] - (sent_[x] - to_x) + from_x + (sent_[y] - to_y) - from_y;
    const double in = in_[node] - (received_[x] - from_x) + to_x + (received_[y] - from_y) - to_y;
    const LoadFigures now = figures(node, out, in);
    result.max_s = std::max(result.max_s, now.max_s);
    result.mean_s += now.mean_s - figures_[node].mean_s;
    result.over_s += now.over_s - figures_[node].over_s;
  }

  const Matrix &flow_;
  std::size_t nodes_;
  std::vector<std::size_t> parent_;
  std::vector<std::vector<CutTerm>> terms_;
  std::vector<std::uint64_t> above_; // by device: nodes that it is below, itself included
  double limit_s_;
  double share_ = 0;                    // of a link in the mean
  std::vector<double> sent_, received_; // by rank

  Assignment placement_;
  std::vector<double> to_, from_; // by rank and node
  std::vector<double> out_, in_;  // what crosses the border of each node
  std::vector<LoadFigures> figures_;
  std::vector<std::size_t> by_load_; // nodes, the busiest link first
  LoadFigures here_;
};

} // namespace

std::unique_ptr<ExchangeLoads> exchange_loads(const Network &network, const RankTraffic &traffic,
                                              const Qap &qap, double limit_s) {
  if (network.devices <= max_tree_devices) {
    if (const auto tree = link_tree(network))
      return std::make_unique<TreeExchanges>(*tree, qap, limit_s);
  }
  return std::make_unique<LinkExchanges>(network, traffic, limit_s);
}

} // namespace toposeat
