// SPDX-License-Identifier: MIT OR Apache-2.0
#include "exact/cut_tree.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

namespace toposeat {
namespace {

bool close(double a, double b) { return std::abs(a - b) <= 1e-12 * std::max(a, b); }

bool is_nearly_symmetric(const Matrix &matrix) {
  for (std::size_t i = 0; i < matrix.n; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (!close(matrix(i, j), matrix(j, i)))
        return false;
    }
  }
  return true;
}

/// Builds the tree of an ultrametric from the top: devices nearer than the block's widest pair form
/// its children.
class CostTreeBuilder {
public:
  explicit CostTreeBuilder(const Matrix &distance) : distance_(distance) {
    tree_.devices = static_cast<std::uint32_t>(distance.n);
  }

  std::optional<CutTree> build() {
    std::vector<std::uint32_t> all(distance_.n);
    for (std::uint32_t d = 0; d < all.size(); ++d)
      all[d] = d;
    if (!add(all, unlimited))
      return std::nullopt;
    return std::move(tree_);
  }

private:
  double between(std::uint32_t a, std::uint32_t b) const {
    return (distance_(a, b) + distance_(b, a)) / 2;
  }

  double width(const std::vector<std::uint32_t> &block) const {
    double widest = 0;
    for (const std::uint32_t a : block) {
      for (const std::uint32_t b : block) {
        if (a != b)
          widest = std::max(widest, between(a, b));
      }
    }
    return widest;
  }

  bool add(const std::vector<std::uint32_t> &block, double parent_width) {
    const std::size_t index = tree_.nodes.size();
    const double here = width(block);
    CutTree::Node node;
    for (const std::uint32_t d : block)
      node.devices |= std::uint64_t{1} << d;
    if (parent_width < unlimited && parent_width > here) {
      node.terms.push_back({0, 0, (parent_width - here) / 2});
    }
    tree_.nodes.push_back(std::move(node));
    if (block.size() == 1)
      return true;
    for (const auto &child : split(block, here)) {
      // Devices at cost 0 of each other still are separate children.
      tree_.nodes[index].children.push_back(static_cast<std::uint32_t>(tree_.nodes.size()));
      if (!add(child, here))
        return false;
    }
    return tree_.nodes[index].children.size() > 1;
  }

  /// Classes of "nearer than `widest`"; empty if that is no equivalence.
  std::vector<std::vector<std::uint32_t>> split(const std::vector<std::uint32_t> &block,
                                                double widest) const {
    std::vector<std::vector<std::uint32_t>> classes;
    for (const std::uint32_t d : block) {
      auto home = classes.end();
      for (auto each = classes.begin(); each != classes.end(); ++each) {
        const bool near = nearer((*each)[0], d, widest);
        for (const std::uint32_t other : *each) {
          if (nearer(other, d, widest) != near)
            return {};
        }
        if (near && home != classes.end())
          return {};
        if (near)
          home = each;
      }
      if (home == classes.end()) {
        classes.push_back({d});
      } else {
        home->push_back(d);
      }
    }
    return classes;
  }

  bool nearer(std::uint32_t a, std::uint32_t b, double widest) const {
    return between(a, b) < widest && !close(between(a, b), widest);
  }

  const Matrix &distance_;
  CutTree tree_;
};

/// Which directed pairs use a link, as one row of targets per source.
struct LinkPairs {
  std::vector<std::uint64_t> forward;
  std::vector<std::uint64_t> backward;
};

/// `rows` is source set x target set with target set = complement of source set: returns the
/// source set, or nothing. An unused direction is empty and gives 0.
std::optional<std::uint64_t> separated_set(const std::vector<std::uint64_t> &rows,
                                           std::uint64_t all) {
  std::uint64_t sources = 0;
  for (std::size_t d = 0; d < rows.size(); ++d) {
    if (rows[d] != 0)
      sources |= std::uint64_t{1} << d;
  }
  for (const std::uint64_t targets : rows) {
    if (targets != 0 && targets != (all & ~sources))
      return std::nullopt;
  }
  return sources;
}

struct Cut {
  std::uint64_t devices = 0;
  CutTerm term;
};

double inverse(double capacity) { return capacity < unlimited ? 1 / capacity : 0; }

/// The block that the link cuts off, on the side that is smaller (or does not hold device 0).
std::optional<Cut> cut_of(const LinkPairs &pairs, const LinkCapacity &link, std::uint64_t all) {
  const auto forward = separated_set(pairs.forward, all);
  const auto backward = separated_set(pairs.backward, all);
  if (!forward || !backward)
    return std::nullopt;
  if (*forward != 0 && *backward != 0 && (*forward | *backward) != all)
    return std::nullopt;
  if ((*forward & *backward) != 0)
    return std::nullopt;
  const std::uint64_t side = *forward != 0 ? *forward : (all & ~*backward);
  Cut cut{side, {inverse(link.forward), inverse(link.backward), inverse(link.combined)}};
  // A direction that no route uses carries nothing.
  if (*forward == 0)
    cut.term.out = 0;
  if (*backward == 0)
    cut.term.in = 0;
  if (*forward == 0)
    cut.term.in = std::max(cut.term.in, cut.term.both), cut.term.both = 0;
  if (*backward == 0)
    cut.term.out = std::max(cut.term.out, cut.term.both), cut.term.both = 0;
  const int size = std::popcount(side);
  const int rest = std::popcount(all) - size;
  if (size > rest || (size == rest && (side & 1U) != 0)) {
    cut.devices = all & ~side;
    std::swap(cut.term.out, cut.term.in);
  }
  return cut;
}

std::vector<LinkPairs> pairs_of_links(const Network &network) {
  const std::vector<std::uint64_t> none(network.devices, 0);
  std::vector<LinkPairs> pairs(network.links.size(), LinkPairs{none, none});
  for (std::uint32_t a = 0; a < network.devices; ++a) {
    for (std::uint32_t b = 0; b < network.devices; ++b) {
      for (const LinkUse &use : network.route(a, b)) {
        auto &rows = use.reverse ? pairs[use.link].backward : pairs[use.link].forward;
        rows[a] |= std::uint64_t{1} << b;
      }
    }
  }
  return pairs;
}

/// Least latency of the routes that use each link; unlimited where none does.
std::vector<double> latency_over_links(const Network &network) {
  std::vector<double> least(network.links.size(), unlimited);
  for (std::uint32_t a = 0; a < network.devices; ++a) {
    for (std::uint32_t b = 0; b < network.devices; ++b) {
      for (const LinkUse &use : network.route(a, b)) {
        least[use.link] =
            std::min(least[use.link], network.latency[a * std::size_t{network.devices} + b]);
      }
    }
  }
  return least;
}

bool unused(const std::vector<std::uint64_t> &rows) {
  return std::all_of(rows.begin(), rows.end(), [](std::uint64_t row) { return row == 0; });
}

bool laminar(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t common = a & b;
  return common == 0 || common == a || common == b;
}

/// Hangs every block below the smallest block that contains it; blocks come by falling size.
std::optional<CutTree>
tree_of_blocks(std::uint32_t devices,
               const std::map<std::uint64_t, std::vector<CutTerm>> &terms_of) {
  std::vector<std::uint64_t> blocks;
  blocks.reserve(terms_of.size());
  for (const auto &[block, terms] : terms_of)
    blocks.push_back(block);
  std::sort(blocks.begin(), blocks.end(), [](std::uint64_t a, std::uint64_t b) {
    return std::pair(-std::popcount(a), a) < std::pair(-std::popcount(b), b);
  });
  CutTree tree;
  tree.devices = devices;
  for (const std::uint64_t block : blocks) {
    std::size_t parent = tree.nodes.size();
    for (std::size_t i = 0; i < tree.nodes.size(); ++i) {
      if (!laminar(tree.nodes[i].devices, block))
        return std::nullopt;
      if ((tree.nodes[i].devices & block) == block)
        parent = i;
    }
    const auto index = static_cast<std::uint32_t>(tree.nodes.size());
    if (parent < tree.nodes.size())
      tree.nodes[parent].children.push_back(index);
    tree.nodes.push_back({block, {}, terms_of.at(block)});
  }
  return tree;
}

} // namespace

std::optional<CutTree> cost_tree(const Qap &qap) {
  if (qap.size() > max_tree_devices || qap.size() == 0)
    return std::nullopt;
  if (!is_nearly_symmetric(qap.distance) && !is_nearly_symmetric(qap.flow))
    return std::nullopt;
  return CostTreeBuilder(qap.distance).build();
}

namespace {

std::optional<CutTree> tree_of_links(const Network &network, bool relaxed, double messages) {
  const std::uint32_t n = network.devices;
  if (n > max_tree_devices || n == 0)
    return std::nullopt;
  const std::uint64_t all = (std::uint64_t{1} << n) - 1;
  std::map<std::uint64_t, std::vector<CutTerm>> terms_of{{all, {}}};
  for (std::uint32_t d = 0; d < n; ++d)
    terms_of[std::uint64_t{1} << d];
  const std::vector<LinkPairs> pairs = pairs_of_links(network);
  const std::vector<double> latency = latency_over_links(network);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (unused(pairs[i].forward) && unused(pairs[i].backward))
      continue;
    auto cut = cut_of(pairs[i], network.links[i], all);
    if (cut)
      cut->term.fixed = messages * latency[i];
    const bool fits = cut && std::all_of(terms_of.begin(), terms_of.end(), [&](const auto &known) {
                        return laminar(known.first, cut->devices);
                      });
    if (!fits && relaxed)
      continue;
    if (!fits)
      return std::nullopt;
    terms_of[cut->devices].push_back(cut->term);
    // The other half of an even split is a block too: it saves an enumeration at the root.
    if (2 * std::popcount(cut->devices) == static_cast<int>(n))
      terms_of[all & ~cut->devices];
  }
  return tree_of_blocks(n, terms_of);
}

} // namespace

std::optional<CutTree> link_tree(const Network &network) {
  return tree_of_links(network, false, 0);
}

std::optional<CutTree> link_tree_relaxed(const Network &network, double messages) {
  return tree_of_links(network, true, messages);
}

} // namespace toposeat
