// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/problem/congestion.hpp"

#include <array>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "toposeat/problem/network.hpp"

namespace toposeat {
namespace {

void add_route(std::span<const LinkUse> route, double bytes, std::vector<LinkBytes> &sums) {
  for (const LinkUse &use : route) {
    LinkBytes &sum = sums[use.link];
    (use.reverse ? sum.backward : sum.forward) += bytes;
  }
}

/// 1 / n for each of the n used links, 0 for the others: the mean is then one dot product.
std::vector<double> mean_weights(const Network &network) {
  const std::vector<bool> used = used_links(network);
  const auto count = static_cast<double>(std::count(used.begin(), used.end(), true));
  std::vector<double> weights(used.size(), 0.0);
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i])
      weights[i] = 1 / count;
  }
  return weights;
}

} // namespace

std::vector<bool> used_links(const Network &network) {
  std::vector<bool> used(network.links.size(), false);
  for (const LinkUse &use : network.route_uses)
    used[use.link] = true;
  return used;
}

Congestion congestion(const Network &network, const RankTraffic &traffic,
                      const Assignment &device_of_rank) {
  check_assignment(network, traffic.ranks, device_of_rank);
  Congestion result;
  result.bytes.resize(network.links.size());
  for (const Flow &flow : traffic.flows) {
    const auto route = network.route(device_of_rank[flow.source], device_of_rank[flow.target]);
    add_route(route, flow.bytes, result.bytes);
    result.hop_bytes += flow.bytes * static_cast<double>(route.size());
  }
  result.seconds.reserve(network.links.size());
  for (std::size_t i = 0; i < network.links.size(); ++i) {
    result.seconds.push_back(congestion_of(network.links[i], result.bytes[i]));
    result.max_s = std::max(result.max_s, result.seconds.back());
  }
  const std::vector<double> weights = mean_weights(network);
  result.mean_s = std::inner_product(weights.begin(), weights.end(), result.seconds.begin(), 0.0);
  return result;
}

PeakModel::PeakModel(Kept<Network> network, Kept<RankTraffic> traffic)
    : network_(network), traffic_(traffic), share_(mean_weights(network)),
      bytes_(network_.links.size()) {}

Peak PeakModel::of(const Assignment &device_of_rank) {
  std::fill(bytes_.begin(), bytes_.end(), LinkBytes{});
  for (const Flow &flow : traffic_.flows)
    add_route(network_.route(device_of_rank[flow.source], device_of_rank[flow.target]), flow.bytes,
              bytes_);
  Peak peak;
  for (std::size_t i = 0; i < bytes_.size(); ++i) {
    const double seconds = congestion_of(network_.links[i], bytes_[i]);
    peak.max_s = std::max(peak.max_s, seconds);
    peak.mean_s += share_[i] * seconds;
  }
  return peak;
}

LinkLoads::LinkLoads(Kept<Network> network, const RankTraffic &traffic, Assignment device_of_rank)
    : network_(network), device_of_rank_(std::move(device_of_rank)),
      rank_of_device_(network_.devices, nobody), share_(mean_weights(network_)) {
  check_assignment(network_, traffic.ranks, device_of_rank_);
  for (std::uint32_t rank = 0; rank < traffic.ranks; ++rank) {
    if (rank_of_device_[device_of_rank_[rank]] != nobody)
      throw std::invalid_argument("two ranks on one device: give it a seat for each");
    rank_of_device_[device_of_rank_[rank]] = rank;
  }
  list_flows(traffic);
  list_routes();
  for (const Flow &flow : traffic.flows)
    add(device_of_rank_[flow.source], device_of_rank_[flow.target], flow.bytes);
  flip(1);
}

void LinkLoads::list_flows(const RankTraffic &traffic) {
  flows_begin_.resize(traffic.ranks + std::size_t{1}, 0);
  for (const Flow &flow : traffic.flows) {
    ++flows_begin_[flow.source + std::size_t{1}];
    ++flows_begin_[flow.target + std::size_t{1}];
  }
  std::partial_sum(flows_begin_.begin(), flows_begin_.end(), flows_begin_.begin());
  flows_.resize(flows_begin_.back());
  std::vector<std::uint32_t> next(flows_begin_.begin(), flows_begin_.end() - 1);
  for (const Flow &flow : traffic.flows) {
    for (const std::uint32_t rank : {flow.source, flow.target})
      flows_[next[rank]++] = {flow.source, flow.target, flow.bytes};
  }
}

void LinkLoads::list_routes() {
  constexpr std::uint32_t none = ~0U;
  std::vector<std::array<std::uint32_t, 3>> load_of;
  for (const LinkCapacity &link : network_.links) {
    loads_begin_.push_back(static_cast<std::uint32_t>(pace_.size()));
    auto &loads = load_of.emplace_back();
    const std::array<double, 3> capacity{link.forward, link.backward, link.combined};
    for (std::size_t i = 0; i < capacity.size(); ++i) {
      loads[i] = std::isinf(capacity[i]) ? none : static_cast<std::uint32_t>(pace_.size());
      if (loads[i] != none)
        pace_.push_back(1 / capacity[i]);
    }
  }
  loads_begin_.push_back(static_cast<std::uint32_t>(pace_.size()));
  changes_.resize((pace_.size() + block - 1) / block);
  for (std::vector<double> *each : {&pace_, &bytes_, &more_, &power_})
    each->resize(changes_.size() * block);
  route_begin_.push_back(0);
  for (std::uint32_t pair = 0; pair < network_.devices * network_.devices; ++pair) {
    for (const LinkUse &use : network_.route(pair / network_.devices, pair % network_.devices)) {
      const auto &loads = load_of[use.link];
      for (const std::uint32_t load : {loads[use.reverse ? 1 : 0], loads[2]}) {
        if (load != none)
          route_.push_back(load);
      }
    }
    route_begin_.push_back(static_cast<std::uint32_t>(route_.size()));
  }
}

double LinkLoads::mean_s() const {
  double sum = 0;
  for (std::size_t link = 0; link < share_.size(); ++link) {
    double seconds = 0;
    for (std::uint32_t load = loads_begin_[link]; load < loads_begin_[link + 1]; ++load)
      seconds = std::max(seconds, bytes_[load] * pace_[load]);
    sum += share_[link] * seconds;
  }
  return sum;
}

double LinkLoads::power_sum() const { return std::accumulate(power_.begin(), power_.end(), 0.0); }

template <class Visit> void LinkLoads::each_changed(Visit visit) {
  for (std::size_t b = 0; b < changes_.size(); ++b) {
    for (std::size_t i = 0; changes_[b] != 0 && i < block; ++i)
      visit(b * block + i);
  }
}

double LinkLoads::weigh(std::uint32_t device_a, std::uint32_t device_b) {
  if (device_a >= network_.devices || device_b >= network_.devices)
    throw std::invalid_argument("exchange names a device that does not exist");
  each_changed([&](std::size_t load) { more_[load] = 0; });
  std::fill(changes_.begin(), changes_.end(), std::uint8_t{0});
  device_a_ = device_a;
  device_b_ = device_b;
  // A flow between the two ranks must be counted once: the second rank skips the first's.
  weigh_flows(rank_of_device_[device_a], nobody);
  if (device_a != device_b)
    weigh_flows(rank_of_device_[device_b], rank_of_device_[device_a]);
  weighed_ = true;
  made_ = false;
  return settle();
}

void LinkLoads::weigh_flows(std::uint32_t rank, std::uint32_t except) {
  if (rank == nobody)
    return;
  for (std::uint32_t i = flows_begin_[rank]; i < flows_begin_[rank + std::size_t{1}]; ++i) {
    const Sent &flow = flows_[i];
    if (flow.source == except || flow.target == except)
      continue;
    const std::uint32_t source = device_of_rank_[flow.source];
    const std::uint32_t target = device_of_rank_[flow.target];
    add(source, target, -flow.bytes);
    add(later(source), later(target), flow.bytes);
  }
}

void LinkLoads::add(std::uint32_t source, std::uint32_t target, double bytes) {
  const std::size_t pair = std::size_t{source} * network_.devices + target;
  double *const more = more_.data();
  std::uint8_t *const changes = changes_.data();
  const std::uint32_t *const end = route_.data() + route_begin_[pair + 1];
  for (const std::uint32_t *load = route_.data() + route_begin_[pair]; load != end; ++load) {
    more[*load] += bytes;
    changes[*load / block] = 1;
  }
}

/// By how much the sum of powers rises.
double LinkLoads::settle() const {
  std::array<double, block> rise{};
  for (std::size_t b = 0; b < changes_.size(); ++b) {
    if (changes_[b] == 0)
      continue;
    const std::size_t first = b * block;
    for (std::size_t i = 0; i < block; ++i) {
      const double seconds = (bytes_[first + i] + more_[first + i]) * pace_[first + i];
      const double square = seconds * seconds;
      rise[i] += square * square * square - power_[first + i];
    }
  }
  return std::accumulate(rise.begin(), rise.end(), 0.0);
}

void LinkLoads::make() {
  if (!std::exchange(weighed_, false))
    throw std::logic_error("there is no exchange to make");
  made_ = true;
  max_before_s_ = max_s_;
  flip(1);
}

void LinkLoads::undo() {
  if (!std::exchange(made_, false))
    throw std::logic_error("there is no change to undo");
  flip(-1);
  max_s_ = max_before_s_;
}

void LinkLoads::flip(double sign) {
  bool busiest_changes = false;
  double largest = 0;
  each_changed([&](std::size_t load) {
    busiest_changes = busiest_changes || bytes_[load] * pace_[load] >= max_s_;
    bytes_[load] += sign * more_[load];
    const double seconds = bytes_[load] * pace_[load];
    const double square = seconds * seconds;
    power_[load] = square * square * square;
    largest = std::max(largest, seconds);
  });
  std::swap(rank_of_device_[device_a_], rank_of_device_[device_b_]);
  for (const std::uint32_t device : {device_a_, device_b_}) {
    if (rank_of_device_[device] != nobody)
      device_of_rank_[rank_of_device_[device]] = device;
  }
  // Only when a busiest load got less may one that did not change be the maximum now.
  for (std::size_t load = 0; busiest_changes && largest < max_s_ && load < bytes_.size(); ++load)
    largest = std::max(largest, bytes_[load] * pace_[load]);
  max_s_ = busiest_changes ? largest : std::max(max_s_, largest);
}

} // namespace toposeat
