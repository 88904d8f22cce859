// SPDX-License-Identifier: MIT OR Apache-2.0
#include "tree/tree_stages.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace toposeat {

TreeStages::TreeStages(const CutTree &tree, const Qap &traffic)
    : tree_(tree), traffic_(traffic), stage_of_node_(tree.nodes.size(), -1) {
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
  Stage stage;
  stage.size = std::popcount(node.devices);
  stage.terms = node.terms;
  std::sort(stage.terms.begin(), stage.terms.end());
  stage.has_pins = all_pinned_ != 0;
  stage.pinned = pinned_below(node);
  const Key key{stage.size, stage.terms, below,
                stage.pinned != 0 ? node_number + std::size_t{1} : 0};
  if (const auto found = stage_of_key_.find(key); found != stage_of_key_.end())
    return known = found->second;
  if (is_flat(node)) {
    stage.leaf = below.front();
  } else if (!below.empty()) {
    split(stage, below);
  }
  known = add(std::move(stage));
  stages_.back().members = {known};
  stage_of_key_[key] = known;
  return known;
}

int TreeStages::add(Stage stage) {
  stages_.push_back(std::move(stage));
  return static_cast<int>(stages_.size()) - 1;
}

RankSet TreeStages::pinned_below(const CutTree::Node &node) const {
  RankSet pinned = 0;
  for (std::uint32_t r = 0; r < tree_.devices; ++r) {
    if (!traffic_.free_rank(r) && (node.devices >> traffic_.pinned[r] & 1U) != 0)
      pinned |= RankSet{1} << r;
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

/// Sets both parts of the stage; `children` are sorted.
void TreeStages::split(Stage &stage, const std::vector<int> &children) {
  std::vector<int> kinds; // stages
  std::vector<SiblingKind> siblings;
  for (const int child : children) {
    if (kinds.empty() || kinds.back() != child) {
      kinds.push_back(child);
      siblings.push_back({(*this)[child].size, 0});
    }
    ++siblings.back().copies;
  }
  const JoinPlan plan(static_cast<int>(tree_.devices), std::move(siblings));
  divide(stage, plan, kinds, plan.whole());
}

void TreeStages::divide(Stage &stage, const JoinPlan &plan, const std::vector<int> &kinds,
                        const SiblingCounts &group) {
  const Division division = plan.divided(group);
  stage.symmetric = division.interchangeable;
  stage.left = group_stage(plan, kinds, division.left);
  stage.right = group_stage(plan, kinds, division.right);
}

/// The stage of some siblings, so many of each kind.
int TreeStages::group_stage(const JoinPlan &plan, const std::vector<int> &kinds,
                            const SiblingCounts &group) {
  Stage stage;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    stage.members.insert(stage.members.end(), static_cast<std::size_t>(group[k]), kinds[k]);
    stage.size += group[k] * (*this)[kinds[k]].size;
  }
  if (stage.members.size() == 1)
    return stage.members.front();
  if (const auto known = stage_of_group_.find(stage.members); known != stage_of_group_.end())
    return known->second;
  divide(stage, plan, kinds, group);
  return stage_of_group_[stage.members] = add(stage);
}

} // namespace toposeat
