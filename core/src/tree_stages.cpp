// SPDX-License-Identifier: MIT OR Apache-2.0
#include "tree_stages.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace toposeat {
namespace {

constexpr std::size_t most_spare = 16;

/// Tables of solvers that are gone: fresh memory takes longer to get than to fill.
std::vector<std::vector<double>> &spare_tables() {
  thread_local std::vector<std::vector<double>> tables;
  return tables;
}

std::vector<double> fresh_table(std::size_t size) {
  std::vector<double> table;
  auto &spare = spare_tables();
  if (!spare.empty()) {
    table = std::move(spare.back());
    spare.pop_back();
  }
  table.assign(size, unknown_value);
  return table;
}

} // namespace

TreeStages::~TreeStages() {
  for (Stage &stage : stages_) {
    if (tables_ && spare_tables().size() < most_spare)
      spare_tables().push_back(std::move(stage.table));
  }
}

TreeStages::TreeStages(const CutTree &tree, const Qap &traffic, bool tables)
    : tree_(tree), traffic_(traffic), ranks_(static_cast<int>(tree.devices)), tables_(tables),
      stage_of_node_(tree.nodes.size(), -1) {
  for (std::uint32_t r = 0; r < tree.devices; ++r) {
    if (!traffic.free_rank(r))
      all_pinned_ |= RankSet{1} << r;
  }
  stage_of(0);
}

/// The stage of a node; nodes that look alike and hold no pinned device share one.
int TreeStages::stage_of(std::uint32_t node_number) {
  int &known = stage_of_node_[node_number];
  if (known >= 0)
    return known;
  const CutTree::Node &node = tree_.nodes[node_number];
  std::vector<int> below;
  below.reserve(node.children.size());
  for (const std::uint32_t child : node.children)
    below.push_back(stage_of(child));
  std::sort(below.begin(), below.end());
  std::vector<CutTerm> terms = node.terms;
  std::sort(terms.begin(), terms.end());
  const RankSet pinned = pinned_below(node);
  const int size = std::popcount(node.devices);
  const Key key{size, terms, below, pinned != 0 ? node_number + std::size_t{1} : 0};
  const auto found = stage_of_key_.find(key);
  if (found != stage_of_key_.end())
    return known = found->second;

  Stage stage;
  stage.terms = std::move(terms);
  if (is_flat(node)) {
    stage.leaf = below.front();
  } else if (!below.empty()) {
    stage = split_stage(below);
    stage.terms = std::get<1>(key);
  }
  stage.size = size;
  stage.nodes = 1;
  stage.has_pins = all_pinned_ != 0;
  stage.pinned = pinned;
  stage.parts = std::move(below);
  known = add(std::move(stage));
  stage_of_key_[key] = known;
  return known;
}

int TreeStages::add(Stage stage) {
  if (tables_)
    stage.table = fresh_table(set_count(ranks_, stage.size));
  stages_.push_back(std::move(stage));
  return static_cast<int>(stages_.size()) - 1;
}

RankSet TreeStages::pinned_below(const CutTree::Node &node) const {
  RankSet pinned = 0;
  for (std::uint32_t r = 0; r < tree_.devices; ++r) {
    if (!traffic_.free_rank(r) && (node.devices >> traffic_.pinned[r] & 1U) != 0) {
      pinned |= RankSet{1} << r;
    }
  }
  return pinned;
}

/// All children are leaves with the same terms: any order of the ranks below has one value.
bool TreeStages::is_flat(const CutTree::Node &node) const {
  if (node.children.empty())
    return false;
  std::vector<CutTerm> first;
  for (const std::uint32_t child : node.children) {
    if (!tree_.nodes[child].children.empty())
      return false;
    std::vector<CutTerm> terms = tree_.nodes[child].terms;
    std::sort(terms.begin(), terms.end());
    if (child == node.children.front())
      first = terms;
    if (terms != first)
      return false;
  }
  return true;
}

Stage TreeStages::joined(int left, int right, bool symmetric) const {
  const Stage &a = (*this)[left];
  const Stage &b = (*this)[right];
  Stage stage;
  stage.size = a.size + b.size;
  stage.nodes = a.nodes + b.nodes;
  stage.left = left;
  stage.right = right;
  stage.symmetric = symmetric;
  for (const int part : {left, right}) {
    const Stage &each = (*this)[part];
    if (each.nodes == 1) {
      stage.parts.push_back(part);
    } else {
      stage.parts.insert(stage.parts.end(), each.parts.begin(), each.parts.end());
    }
  }
  return stage;
}

/// Joins the children (sorted stages) two by two, equal ones first; returns the last join, not
/// yet added.
Stage TreeStages::split_stage(const std::vector<int> &children) {
  std::vector<std::pair<int, int>> groups; // stage, copies
  for (const int child : children) {
    if (groups.empty() || groups.back().first != child)
      groups.emplace_back(child, 0);
    ++groups.back().second;
  }
  int so_far = -1;
  Stage last;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const auto [part, copies] = groups[g];
    int run = part;
    for (int copy = 1; copy < copies; ++copy) {
      last = joined(run, part, true);
      if (copy + 1 < copies || groups.size() > 1)
        run = add(last);
    }
    if (so_far >= 0) {
      last = joined(so_far, run, false);
      if (g + 1 < groups.size())
        so_far = add(last);
    } else {
      so_far = run;
    }
  }
  return last;
}

bool TreeStages::regular() const {
  return std::all_of(stages_.begin(), stages_.end() - 1,
                     [](const Stage &stage) { return stage.left < 0 || stage.symmetric; });
}

std::vector<std::uint32_t> TreeStages::ordered_children(const CutTree::Node &node) const {
  std::vector<std::uint32_t> children = node.children;
  std::sort(children.begin(), children.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(stage_of_node_[a], a) < std::pair(stage_of_node_[b], b);
  });
  return children;
}

} // namespace toposeat
