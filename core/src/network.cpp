// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/network.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace toposeat {
namespace {

[[noreturn]] void reject(const std::string &sentence) { throw std::invalid_argument(sentence); }

// Beyond, quotients and sums of bytes, rates and seconds would leave the range of doubles, where
// the flow model finds no end. Nothing real is near.
constexpr double least_capacity = 1e-30;
constexpr double largest_number = 1e30;

bool is_capacity(double value) { return value > 0; } // false for NaN

bool is_in_range(double capacity) {
  return std::isinf(capacity) || (capacity >= least_capacity && capacity <= largest_number);
}

void check_link(const LinkCapacity &link, std::size_t number) {
  if (!is_capacity(link.forward) || !is_capacity(link.backward) || !is_capacity(link.combined)) {
    reject("link " + std::to_string(number) + ": a capacity is not greater than zero");
  }
  if (!is_in_range(link.forward) || !is_in_range(link.backward) || !is_in_range(link.combined))
    reject("link " + std::to_string(number) + ": a capacity is not within 1e-30 to 1e30");
}

void check_pair(const Network &network, std::size_t pair) {
  const auto from = static_cast<std::uint32_t>(pair / network.devices);
  const auto to = static_cast<std::uint32_t>(pair % network.devices);
  const std::string name = "route " + std::to_string(from) + " -> " + std::to_string(to);
  const auto route = network.route(from, to);
  if (from == to && !route.empty())
    reject(name + " is not empty");
  for (const LinkUse &use : route) {
    if (use.link >= network.links.size())
      reject(name + " uses a link that does not exist");
  }
  if (!is_capacity(network.cap[pair]))
    reject(name + ": the cap is not greater than zero");
  if (!is_in_range(network.cap[pair]))
    reject(name + ": the cap is not within 1e-30 to 1e30");
  if (network.latency[pair] > largest_number && std::isfinite(network.latency[pair]))
    reject(name + ": the latency is beyond 1e30");
  if (!(network.latency[pair] >= 0) || !std::isfinite(network.latency[pair])) {
    reject(name + ": the latency is negative or not finite");
  }
}

} // namespace

void Network::validate() const {
  const std::size_t pairs = static_cast<std::size_t>(devices) * devices;
  if (route_begin.size() != pairs + 1)
    reject("route_begin must have devices^2 + 1 entries");
  if (cap.size() != pairs || latency.size() != pairs) {
    reject("cap and latency must have devices^2 entries");
  }
  if (route_begin.front() != 0 || route_begin.back() != route_uses.size() ||
      !std::is_sorted(route_begin.begin(), route_begin.end())) {
    reject("route_begin must rise from 0 to the number of route uses");
  }
  for (std::size_t i = 0; i < links.size(); ++i)
    check_link(links[i], i);
  for (std::size_t pair = 0; pair < pairs; ++pair)
    check_pair(*this, pair);
}

void RankTraffic::validate() const {
  std::vector<std::uint64_t> pairs;
  pairs.reserve(flows.size());
  for (const Flow &flow : flows) {
    const std::string name =
        "flow " + std::to_string(flow.source) + " -> " + std::to_string(flow.target);
    if (flow.source >= ranks || flow.target >= ranks)
      reject(name + " names a rank out of range");
    if (flow.source == flow.target)
      reject(name + " goes to its own rank");
    if (!(flow.bytes >= 0) || !std::isfinite(flow.bytes) || !(flow.messages >= 0) ||
        !std::isfinite(flow.messages)) {
      reject(name + ": bytes and messages must be finite and not negative");
    }
    if (flow.bytes > largest_number || flow.messages > largest_number)
      reject(name + ": bytes or messages are beyond 1e30");
    pairs.push_back(static_cast<std::uint64_t>(flow.source) * ranks + flow.target);
  }
  std::sort(pairs.begin(), pairs.end());
  const auto twice = std::adjacent_find(pairs.begin(), pairs.end());
  if (twice != pairs.end()) {
    reject("flow " + std::to_string(*twice / ranks) + " -> " + std::to_string(*twice % ranks) +
           " appears twice");
  }
}

} // namespace toposeat
