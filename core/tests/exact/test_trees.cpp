// Trees of any shape against enumeration: whatever way of solving them is chosen.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <bit>
#include <numeric>
#include <vector>

#include "base/rng.hpp"
#include "catch.hpp"
#include "exact/cut_tree.hpp"
#include "exact/subset_dp.hpp"

using namespace toposeat;

namespace {

CutTerm random_term(Rng &rng) {
  return {0.5 * rng.below(4), 0.5 * rng.below(4), rng.below(2) == 0 ? 0.25 * rng.below(4) : 0,
          rng.below(4) == 0 ? 1.0 + rng.below(3) : 0};
}

/// Hangs a node with these devices (of a shuffled order) into the tree.
std::uint32_t hang(CutTree &tree, const std::vector<std::uint32_t> &devices, bool alike, Rng &rng) {
  const auto number = static_cast<std::uint32_t>(tree.nodes.size());
  CutTree::Node node;
  for (const std::uint32_t device : devices)
    node.devices |= std::uint64_t{1} << device;
  if (number > 0)
    node.terms.assign(rng.below(4) == 0 ? 0 : 1,
                      alike ? CutTerm{1, 1, 0.25 * static_cast<double>(devices.size()), 0}
                            : random_term(rng));
  tree.nodes.push_back(node);
  for (std::size_t begin = 0; devices.size() > 1 && begin < devices.size();) {
    const std::size_t most = std::min(devices.size() - 1, devices.size() - begin);
    const std::size_t size = 1 + rng.below(static_cast<std::uint32_t>(most));
    const auto first = devices.begin() + static_cast<std::ptrdiff_t>(begin);
    const std::uint32_t child =
        hang(tree, {first, first + static_cast<std::ptrdiff_t>(size)}, alike, rng);
    tree.nodes[number].children.push_back(child);
    begin += size;
  }
  return number;
}

CutTree random_tree(std::uint32_t devices, bool alike, Rng &rng) {
  CutTree tree;
  tree.devices = devices;
  hang(tree, rng.permutation(devices), alike, rng);
  return tree;
}

/// Some ranks idle, some pinned.
Qap random_traffic(std::uint32_t ranks, std::uint32_t idle, std::uint32_t pinned, Rng &rng) {
  Qap qap;
  qap.flow = qap.distance = Matrix(ranks);
  qap.active = ranks;
  qap.pinned.assign(ranks, Qap::no_pin);
  const Assignment quiet = rng.permutation(ranks);
  for (std::uint32_t i = idle; i < ranks; ++i) {
    for (std::uint32_t j = idle; j < ranks; ++j) {
      if (i != j && rng.below(2) == 0)
        qap.flow(quiet[i], quiet[j]) = rng.below(9);
    }
  }
  const Assignment devices = rng.permutation(ranks);
  for (std::uint32_t r = 0; r < pinned; ++r)
    qap.pinned[2 * r] = devices[r];
  return qap;
}

struct Figures {
  double largest = 0;
  double sum = 0;
};

class Evaluator {
public:
  Evaluator(const CutTree &tree, const Qap &qap) : tree_(tree), out_(1U << qap.size()), in_(out_) {
    for (std::uint32_t set = 0; set < out_.size(); ++set) {
      for (std::size_t r = 0; r < qap.size(); ++r) {
        for (std::size_t s = 0; s < qap.size(); ++s) {
          const bool leaves = (set >> r & 1U) != 0 && (set >> s & 1U) == 0;
          out_[set] += leaves ? qap.flow(r, s) : 0;
          in_[set] += leaves ? qap.flow(s, r) : 0;
        }
      }
    }
  }

  Figures of(const Assignment &placement) const {
    Figures figures;
    for (const CutTree::Node &node : tree_.nodes) {
      std::uint32_t set = 0;
      for (std::size_t r = 0; r < placement.size(); ++r)
        set |= static_cast<std::uint32_t>(node.devices >> placement[r] & 1U) << r;
      for (const CutTerm &term : node.terms) {
        double value = std::max(
            {term.out * out_[set], term.in * in_[set], term.both * (out_[set] + in_[set])});
        value += value > 0 ? term.fixed : 0;
        figures.largest = std::max(figures.largest, value);
        figures.sum += value;
      }
    }
    return figures;
  }

private:
  const CutTree &tree_;
  std::vector<double> out_;
  std::vector<double> in_;
};

bool keeps_pins(const Qap &qap, const Assignment &placement) {
  for (std::size_t r = 0; r < qap.size(); ++r) {
    if (!qap.may_use(r, placement[r]))
      return false;
  }
  return true;
}

/// Least sum, least maximum, and least sum with the least maximum.
struct Optima {
  double sum = unlimited;
  Figures both{unlimited, unlimited};
};

Optima enumerated(const Evaluator &evaluate, const Qap &qap) {
  Optima best;
  Assignment placement(qap.size());
  std::iota(placement.begin(), placement.end(), 0U);
  do {
    if (!keeps_pins(qap, placement))
      continue;
    const Figures here = evaluate.of(placement);
    best.sum = std::min(best.sum, here.sum);
    if (here.largest < best.both.largest - 1e-9)
      best.both = here;
    else if (here.largest < best.both.largest + 1e-9)
      best.both.sum = std::min(best.both.sum, here.sum);
  } while (std::next_permutation(placement.begin(), placement.end()));
  return best;
}

} // namespace

TEST_CASE("trees of any shape: sum, maximum, and sum within the maximum equal enumeration",
          "[map]") {
  Rng rng(101);
  for (std::uint32_t kind = 0; kind < 48; ++kind) {
    const std::uint32_t n = 5 + kind % 3; // one word of sets, and two
    const CutTree tree = random_tree(n, kind % 4 == 0, rng);
    const Qap qap = random_traffic(n, kind % 5 == 1 ? 3 : 0, kind % 6 == 5 ? 2 : 0, rng);
    const Evaluator evaluate(tree, qap);
    const Optima best = enumerated(evaluate, qap);
    CAPTURE(kind);

    const auto sum = min_sum_on_tree(tree, qap);
    REQUIRE(sum);
    CHECK(keeps_pins(qap, sum->placement));
    CHECK(sum->value == Approx(best.sum));
    CHECK(evaluate.of(sum->placement).sum == Approx(best.sum));

    const auto largest = min_max_on_tree(tree, qap);
    REQUIRE(largest);
    CHECK(largest->value == Approx(best.both.largest));
    CHECK(evaluate.of(largest->placement).largest == Approx(best.both.largest));
    CHECK_FALSE(min_max_on_tree(tree, qap, largest->value));

    const auto both = min_max_then_sum_on_tree(tree, qap, unlimited);
    REQUIRE(both);
    CHECK(keeps_pins(qap, both->placement));
    CHECK(evaluate.of(both->placement).largest == Approx(best.both.largest));
    CHECK(evaluate.of(both->placement).sum == Approx(best.both.sum));
  }
}

TEST_CASE("a tree's optimum counts little traffic beside much", "[map]") {
  Qap qap;
  qap.flow = Matrix(3);
  qap.flow(0, 1) = 1e-16; // lost in a sum with the next, and dearer than it on the far device
  qap.flow(2, 0) = 1;
  qap.distance = Matrix(3);
  for (std::size_t a = 0; a < 3; ++a) {
    for (std::size_t b = 0; b < 3; ++b)
      qap.distance(a, b) = a == b ? 0 : a + b == 1 ? 1 : 1e26;
  }
  qap.active = 3;
  qap.pinned = {Qap::no_pin, 2, Qap::no_pin}; // rank 1 is far from both others
  const auto tree = cost_tree(qap);
  REQUIRE(tree);
  const auto answer = min_sum_on_tree(*tree, qap);
  REQUIRE(answer);
  CHECK(answer->value == Approx(1 + 1e10));
}
