// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/problem/congestion.hpp"

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

double largest(std::span<const double> seconds) {
  double result = 0;
  for (const double each : seconds)
    result = std::max(result, each);
  return result;
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
  }
  result.max_s = largest(result.seconds);
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
    : network_(network), device_of_rank_(std::move(device_of_rank)) {
  Congestion start = congestion(network_, traffic, device_of_rank_);
  bytes_ = std::move(start.bytes);
  seconds_ = std::move(start.seconds);
  max_s_ = start.max_s;
  share_ = mean_weights(network_);
  touched_in_.resize(network_.links.size(), 0);

  rank_of_device_.resize(network_.devices, nobody);
  for (std::uint32_t rank = 0; rank < traffic.ranks; ++rank) {
    if (rank_of_device_[device_of_rank_[rank]] != nobody)
      throw std::invalid_argument("two ranks on one device: give it a seat for each");
    rank_of_device_[device_of_rank_[rank]] = rank;
  }

  flows_begin_.resize(traffic.ranks + std::size_t{1}, 0);
  for (const Flow &flow : traffic.flows) {
    ++flows_begin_[flow.source + std::size_t{1}];
    ++flows_begin_[flow.target + std::size_t{1}];
  }
  std::partial_sum(flows_begin_.begin(), flows_begin_.end(), flows_begin_.begin());
  flows_.resize(flows_begin_.back());
  std::vector<std::uint32_t> next(flows_begin_.begin(), flows_begin_.end() - 1);
  for (const Flow &flow : traffic.flows) {
    flows_[next[flow.source]++] = {flow.source, flow.target, flow.bytes};
    flows_[next[flow.target]++] = {flow.source, flow.target, flow.bytes};
  }
}

double LinkLoads::mean_s() const {
  return std::inner_product(share_.begin(), share_.end(), seconds_.begin(), 0.0);
}

void LinkLoads::exchange(std::uint32_t device_a, std::uint32_t device_b) {
  if (device_a >= network_.devices || device_b >= network_.devices) {
    throw std::invalid_argument("exchange names a device that does not exist");
  }
  undone_ = {device_a, device_b};
  max_before_s_ = max_s_;
  saved_.clear();
  ++change_number_;
  if (device_a == device_b)
    return;
  const std::uint32_t rank_a = rank_of_device_[device_a];
  const std::uint32_t rank_b = rank_of_device_[device_b];
  // A flow between the two ranks must be counted once: the second rank skips the first's.
  add_flows_of(rank_a, nobody, -1);
  add_flows_of(rank_b, rank_a, -1);
  seat(device_a, device_b);
  add_flows_of(rank_a, nobody, +1);
  add_flows_of(rank_b, rank_a, +1);
  settle();
}

void LinkLoads::undo() {
  if (!undone_)
    throw std::logic_error("there is no change to undo");
  for (const auto &[link, bytes, seconds] : saved_) {
    bytes_[link] = bytes;
    seconds_[link] = seconds;
  }
  seat(undone_->first, undone_->second);
  max_s_ = max_before_s_;
  undone_.reset();
}

void LinkLoads::add_flows_of(std::uint32_t rank, std::uint32_t except, double sign) {
  if (rank == nobody)
    return;
  for (std::uint32_t i = flows_begin_[rank]; i < flows_begin_[rank + std::size_t{1}]; ++i) {
    const Sent &flow = flows_[i];
    if (flow.source == except || flow.target == except)
      continue;
    add_flow(flow, sign);
  }
}

void LinkLoads::add_flow(const Sent &flow, double sign) {
  for (const LinkUse &use :
       network_.route(device_of_rank_[flow.source], device_of_rank_[flow.target])) {
    LinkBytes &sum = bytes_[use.link];
    if (touched_in_[use.link] != change_number_) {
      touched_in_[use.link] = change_number_;
      saved_.push_back({use.link, sum, seconds_[use.link]});
    }
    (use.reverse ? sum.backward : sum.forward) += sign * flow.bytes;
  }
}

void LinkLoads::seat(std::uint32_t device_a, std::uint32_t device_b) {
  std::swap(rank_of_device_[device_a], rank_of_device_[device_b]);
  for (const std::uint32_t device : {device_a, device_b}) {
    const std::uint32_t rank = rank_of_device_[device];
    if (rank != nobody)
      device_of_rank_[rank] = device;
  }
}

/// Brings the seconds of the saved links, and the maximum, up to date.
void LinkLoads::settle() {
  bool busiest_touched = false;
  double largest_touched = 0;
  for (const auto &[link, bytes, seconds] : saved_) {
    busiest_touched = busiest_touched || seconds >= max_s_;
    seconds_[link] = congestion_of(network_.links[link], bytes_[link]);
    largest_touched = std::max(largest_touched, seconds_[link]);
  }
  // Only when a busiest link got less may an untouched link be the maximum now.
  if (largest_touched >= max_s_) {
    max_s_ = largest_touched;
  } else if (busiest_touched) {
    max_s_ = largest(seconds_);
  }
}

} // namespace toposeat
