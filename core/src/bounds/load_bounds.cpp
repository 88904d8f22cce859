// SPDX-License-Identifier: MIT OR Apache-2.0
#include "bounds/load_bounds.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

namespace toposeat {
namespace {

double directed_capacity(const Network &network, const LinkUse &use) {
  const LinkCapacity &link = network.links[use.link];
  return std::min(use.reverse ? link.backward : link.forward, link.combined);
}

/// Least capacity along the route of each ordered pair.
Matrix route_widths(const Network &network) {
  Matrix widths(network.devices);
  for (std::uint32_t a = 0; a < network.devices; ++a) {
    for (std::uint32_t b = 0; b < network.devices; ++b) {
      double width = unlimited;
      const auto route = network.route(a, b);
      for (const LinkUse &use : route) {
        const bool both = std::any_of(route.begin(), route.end(), [&](const LinkUse &other) {
          return other.link == use.link && other.reverse != use.reverse;
        });
        const double combined = network.links[use.link].combined;
        width = std::min({width, directed_capacity(network, use), both ? combined / 2 : combined});
      }
      widths(a, b) = width;
    }
  }
  return widths;
}

/// How fast the fastest device can send (or receive) everything over its links; unlimited where
/// seats of one device need no link.
double fastest_port(const Network &network, bool out) {
  double fastest = 0;
  for (std::uint32_t device = 0; device < network.devices; ++device) {
    std::set<std::pair<std::uint32_t, bool>> links;
    double sum = 0;
    for (std::uint32_t other = 0; other < network.devices; ++other) {
      if (other == device)
        continue;
      const auto route = out ? network.route(device, other) : network.route(other, device);
      if (route.empty())
        return unlimited;
      const LinkUse &use = out ? route.front() : route.back();
      if (links.emplace(use.link, use.reverse).second)
        sum += directed_capacity(network, use);
    }
    fastest = std::max(fastest, sum);
  }
  return fastest;
}

double widest_route(const Network &network) {
  const Matrix widths = route_widths(network);
  double widest = 0;
  for (std::uint32_t a = 0; a < network.devices; ++a) {
    for (std::uint32_t b = 0; b < network.devices; ++b)
      widest = a == b ? widest : std::max(widest, widths(a, b));
  }
  return widest;
}

/// Latencies and seconds per byte of the pairs that no other pair beats in both; there are few.
std::vector<std::pair<double, double>> best_pairs(const Network &network, const Matrix &rates) {
  std::set<std::pair<double, double>> all;
  for (std::uint32_t a = 0; a < network.devices; ++a) {
    for (std::uint32_t b = 0; b < network.devices; ++b) {
      if (a != b)
        all.emplace(network.latency[a * std::size_t{network.devices} + b], 1 / rates(a, b));
    }
  }
  std::vector<std::pair<double, double>> best;
  for (const auto &each : all) {
    if (best.empty() || each.second < best.back().second)
      best.push_back(each);
  }
  return best;
}

/// Latencies from a device to all others, the least first.
std::vector<std::vector<double>> near_latencies(const Network &network) {
  std::vector<std::vector<double>> sorted(network.devices);
  for (std::uint32_t a = 0; a < network.devices; ++a) {
    for (std::uint32_t b = 0; b < network.devices; ++b) {
      if (a != b)
        sorted[a].push_back(network.latency[a * std::size_t{network.devices} + b]);
    }
    std::sort(sorted[a].begin(), sorted[a].end());
  }
  return sorted;
}

/// What the rounds of some rank take on any device: of two lists, the one falling and the other
/// rising, the sum of products is least.
double least_waits(const Network &network, const RankTraffic &traffic) {
  std::vector<std::vector<double>> rounds(traffic.ranks);
  for (const Flow &flow : traffic.flows) {
    if (flow.rounds > 0)
      rounds[flow.source].push_back(flow.rounds);
  }
  for (std::vector<double> &each : rounds)
    std::sort(each.rbegin(), each.rend());
  std::sort(rounds.begin(), rounds.end());
  rounds.erase(std::unique(rounds.begin(), rounds.end()), rounds.end());
  if (rounds.size() == 1 && rounds.front().empty())
    return 0;
  const auto latencies = near_latencies(network);
  double most = 0;
  for (const std::vector<double> &each : rounds) {
    double least = unlimited;
    for (const std::vector<double> &near : latencies)
      least = std::min(least, std::inner_product(each.begin(), each.end(), near.begin(), 0.0));
    most = std::max(most, least);
  }
  return most;
}

} // namespace

Matrix isolated_rates(const Network &network) {
  Matrix rates = route_widths(network);
  for (std::size_t pair = 0; pair < rates.values.size(); ++pair)
    rates.values[pair] = std::min(rates.values[pair], network.cap[pair]);
  return rates;
}

LoadBounds load_bounds(const Network &network, const RankTraffic &traffic) {
  LoadBounds result;
  const auto pairs = best_pairs(network, isolated_rates(network));
  if (pairs.empty() || traffic.flows.empty())
    return result;
  const double widest = widest_route(network);
  std::vector<double> out(traffic.ranks, 0);
  std::vector<double> in(traffic.ranks, 0);
  double fewest = unlimited;
  for (const Flow &flow : traffic.flows) {
    out[flow.source] += flow.bytes;
    in[flow.target] += flow.bytes;
    if (flow.bytes > 0)
      fewest = std::min(fewest, flow.messages);
    result.congestion_s = std::max(result.congestion_s, flow.bytes / widest);
    double alone = unlimited;
    for (const auto &[latency, pace] : pairs)
      alone = std::min(alone, flow.messages * latency + flow.bytes * pace);
    result.time_s = std::max(result.time_s, alone);
  }
  const double most_out = *std::max_element(out.begin(), out.end());
  const double most_in = *std::max_element(in.begin(), in.end());
  result.congestion_s = std::max({result.congestion_s, most_out / fastest_port(network, true),
                                  most_in / fastest_port(network, false)});
  if (fewest < unlimited) {
    result.start_s = fewest * pairs.front().first; // the nearest pair
    result.time_s = std::max(result.time_s, result.start_s + result.congestion_s);
  }
  result.time_s = std::max(result.time_s, least_waits(network, traffic));
  return result;
}

} // namespace toposeat
