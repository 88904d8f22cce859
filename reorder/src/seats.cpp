// SPDX-License-Identifier: MIT OR Apache-2.0
#include "seats.hpp"

#include <algorithm>
#include <numeric>

#include "toposeat/search/cost_search.hpp"

namespace toposeat::reorder {
namespace {

constexpr double least_gain = 0.01;            // of the cost, as `toposeat map` has it
constexpr double forever_s = 86400;            // the answer must not depend on a clock
constexpr std::uint64_t all_moves = 1U << 14U; // for each process of a node, shared by nodes
constexpr std::uint64_t most_moves = 48, fewest_moves = 4;

struct Sums {
  double cost = 0, dearest = 0;
};

Sums sums_of(const Qap &qap, const Assignment &placement) {
  Sums sums;
  for (std::size_t a = 0; a < qap.size(); ++a)
    for (std::size_t b = 0; b < qap.size(); ++b) {
      const double cost = qap.flow(a, b) * qap.distance(placement[a], placement[b]);
      sums.cost += cost;
      sums.dearest = std::max(sums.dearest, cost);
    }
  return sums;
}

} // namespace

Seats::Seats(const tpr_places &places, std::size_t nodes)
    : places_(places), moves_(std::clamp<std::uint64_t>(all_moves / std::max<std::size_t>(nodes, 1),
                                                        fewest_moves, most_moves)) {}

Seats::Found Seats::search(const std::vector<int> &devices, const std::vector<Flow> &flows) const {
  const std::size_t count = devices.size();
  Qap qap{.flow = Matrix(count),
          .distance = Matrix(count),
          .active = count,
          .pinned = std::vector<std::uint32_t>(count, Qap::no_pin)};
  for (const Flow &flow : flows)
    qap.flow(flow.source, flow.target) += flow.bytes;
  for (std::size_t a = 0; a < count; ++a)
    for (std::size_t b = 0; b < count; ++b)
      qap.distance(a, b) = places_.cost[devices[a] * places_.devices + devices[b]];
  Assignment rising(count);
  std::iota(rising.begin(), rising.end(), 0);
  const Sums before = sums_of(qap, rising);
  const CostAnswer answer =
      search_cost(qap, rising, {.seed = 1, .moves = moves_ * count}, Deadline::in(forever_s));
  const Sums after = sums_of(qap, answer.placement);
  if (after.cost > (1 - least_gain) * before.cost || after.dearest > before.dearest)
    return {rising, before.cost, before.cost};
  Found found{std::vector<std::uint32_t>(count), before.cost, after.cost};
  for (std::size_t role = 0; role < count; ++role)
    found.position[answer.placement[role]] = static_cast<std::uint32_t>(role);
  return found;
}

std::vector<std::uint32_t> Seats::assign(const std::vector<std::uint32_t> &processes,
                                         const std::vector<Flow> &flows, tpr_links &links) {
  std::vector<int> devices;
  devices.reserve(processes.size());
  for (const std::uint32_t process : processes)
    devices.push_back(places_.device[process]);
  std::vector<std::pair<std::uint64_t, double>> pairs;
  pairs.reserve(flows.size());
  for (const Flow &flow : flows)
    pairs.emplace_back(std::uint64_t{flow.source} << 32U | flow.target, flow.bytes);
  const auto [at, is_new] = known_.try_emplace({devices, std::move(pairs)});
  if (is_new)
    at->second = search(devices, flows);
  links.within_rising += at->second.rising;
  links.within += at->second.cost;
  return at->second.position;
}

} // namespace toposeat::reorder
