// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/problem/network.hpp"

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

void check_numbers(const char *what, const std::vector<std::int32_t> &of_pair, std::size_t pairs,
                   std::size_t count) {
  if (!of_pair.empty() && of_pair.size() != pairs)
    reject(std::string(what) + "_of_pair must have devices^2 entries, or none");
  for (const std::int32_t number : of_pair) {
    if (number < none_of_pair || number >= static_cast<std::int64_t>(count))
      reject(std::string(what) + "_of_pair names a " + what + " that does not exist");
  }
}

void check_limit(double limit) {
  if (!is_capacity(limit) || !is_in_range(limit))
    reject("a pair limit is not within 1e-30 to 1e30");
}

void check_curve(const SizeCurve &curve) {
  if (curve.empty())
    reject("a curve has no points");
  double before = 0;
  for (const CurvePoint &point : curve) {
    if (!(point.size > before) || point.size > largest_number)
      reject("the sizes of a curve do not rise within 0 to 1e30");
    if (!is_capacity(point.rate) || std::isinf(point.rate) || !is_in_range(point.rate))
      reject("a rate of a curve is not within 1e-30 to 1e30");
    if (!(point.latency >= 0) || point.latency > largest_number)
      reject("a latency of a curve is not within 0 to 1e30");
    before = point.size;
  }
}

/// What evaluators take for the best of a pair must be that.
void check_envelope(const Network &network, std::size_t pair) {
  const std::int32_t number = network.curve(pair);
  if (number == none_of_pair)
    return;
  for (const CurvePoint &point : network.curves[static_cast<std::size_t>(number)]) {
    if (network.latency[pair] > point.latency)
      reject("the latency of a pair is above that of its curve");
  }
}

} // namespace

CurvePoint point_at(const SizeCurve &curve, double size) {
  const auto after =
      std::lower_bound(curve.begin(), curve.end(), size,
                       [](const CurvePoint &point, double value) { return point.size < value; });
  if (after == curve.begin() || after == curve.end()) {
    const CurvePoint &end = after == curve.end() ? curve.back() : curve.front();
    return {size, end.latency, end.rate};
  }
  const CurvePoint &before = *(after - 1);
  const double part = std::log(size / before.size) / std::log(after->size / before.size);
  return {size, std::lerp(before.latency, after->latency, part),
          std::lerp(before.rate, after->rate, part)};
}

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
  check_numbers("limit", limit_of_pair, pairs, pair_limits.size());
  check_numbers("curve", curve_of_pair, pairs, curves.size());
  std::for_each(pair_limits.begin(), pair_limits.end(), check_limit);
  std::for_each(curves.begin(), curves.end(), check_curve);
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    check_pair(*this, pair);
    check_envelope(*this, pair);
  }
}

namespace {

void check_sizes(const std::vector<SizeShare> &sizes) {
  double shares = 0;
  double mean = 0;
  for (const SizeShare &each : sizes) {
    if (!(each.share >= 0) || !(each.factor >= 0) || each.factor > largest_number)
      reject("a share or factor of message sizes is not within 0 to 1e30");
    shares += each.share;
    mean += each.share * each.factor;
  }
  if (!(std::abs(shares - 1) < 1e-6) || !(std::abs(mean - 1) < 1e-6))
    reject("shares of message sizes do not add up to 1, or do not keep the mean");
}

} // namespace

void RankTraffic::validate() const {
  check_sizes(sizes);
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
    if (!(flow.rounds >= 0) || flow.rounds > flow.messages)
      reject(name + ": there are fewer messages than rounds, or fewer rounds than none");
    pairs.push_back(static_cast<std::uint64_t>(flow.source) * ranks + flow.target);
  }
  std::sort(pairs.begin(), pairs.end());
  const auto twice = std::adjacent_find(pairs.begin(), pairs.end());
  if (twice != pairs.end()) {
    reject("flow " + std::to_string(*twice / ranks) + " -> " + std::to_string(*twice % ranks) +
           " appears twice");
  }
}

void check_assignment(const Network &network, std::uint32_t ranks,
                      std::span<const std::uint32_t> device_of_rank) {
  if (device_of_rank.size() != ranks) {
    throw std::invalid_argument("expected a device for each of " + std::to_string(ranks) +
                                " ranks, got " + std::to_string(device_of_rank.size()));
  }
  for (std::size_t rank = 0; rank < device_of_rank.size(); ++rank) {
    const std::uint32_t device = device_of_rank[rank];
    if (device >= network.devices) {
      throw std::invalid_argument("rank " + std::to_string(rank) + ": device " +
                                  std::to_string(device) + " does not exist, there are " +
                                  std::to_string(network.devices));
    }
  }
}

} // namespace toposeat
