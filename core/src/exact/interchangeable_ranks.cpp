// SPDX-License-Identifier: MIT OR Apache-2.0
#include "exact/interchangeable_ranks.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "toposeat/problem/symmetry.hpp"

namespace toposeat {
namespace {

struct Exchange {
  double bytes = 0;
  double messages = 0;
  double rounds = 0;

  auto operator<=>(const Exchange &) const = default;
};

/// What the ranks at two places of the order exchange, as a number: equal only where it is equal.
class Pattern {
public:
  Pattern(const RankTraffic &traffic, const std::vector<std::uint32_t> &order)
      : numbers_(order.size()), lines_(order.size()) {
    std::vector<std::size_t> place(order.size());
    for (std::size_t p = 0; p < order.size(); ++p)
      place[order[p]] = p;
    std::map<Exchange, double> known{{Exchange{}, 0.0}};
    for (const Flow &flow : traffic.flows) {
      const Exchange what{flow.bytes, flow.messages, flow.rounds};
      const double number =
          known.try_emplace(what, static_cast<double>(known.size())).first->second;
      const std::size_t from = place[flow.source];
      const std::size_t to = place[flow.target];
      numbers_(from, to) = number;
      lines_[from].first.push_back(number);
      lines_[to].second.push_back(number);
    }
    for (auto &[sent, received] : lines_) {
      std::sort(sent.begin(), sent.end());
      std::sort(received.begin(), received.end());
    }
  }

  [[nodiscard]] const Matrix &numbers() const { return numbers_; }
  [[nodiscard]] bool same_lines(std::size_t p, std::size_t q) const {
    return lines_[p] == lines_[q];
  }

private:
  Matrix numbers_;
  std::vector<std::pair<std::vector<double>, std::vector<double>>> lines_; // sent, received
};

bool restricted(const LoadProblem &problem) {
  return !problem.allowed.empty() ||
         std::any_of(problem.pinned.begin(), problem.pinned.end(),
                     [](std::uint32_t pin) { return pin != Qap::no_pin; });
}

} // namespace

std::vector<std::uint32_t> later_interchangeable(const LoadProblem &problem,
                                                 const std::vector<std::uint32_t> &order,
                                                 std::size_t talking) {
  const Pattern pattern(problem.traffic, order);
  const Symmetry symmetry(pattern.numbers());
  std::vector<std::uint32_t> places(order.size());
  std::iota(places.begin(), places.end(), 0U);
  const bool idle_only = restricted(problem);
  std::vector<std::uint32_t> interchangeable(order.size(), 0);
  for (std::uint32_t p = 0; p < order.size(); ++p) {
    const auto fixed = std::span<const std::uint32_t>(places).first(p);
    for (std::uint32_t q = p + 1; q < order.size(); ++q) {
      if (p >= talking ||
          (!idle_only && pattern.same_lines(p, q) && symmetry.equivalent(fixed, p, q)))
        interchangeable[p] |= 1U << q;
    }
  }
  return interchangeable;
}

} // namespace toposeat
