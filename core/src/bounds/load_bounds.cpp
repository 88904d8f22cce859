// SPDX-License-Identifier: MIT OR Apache-2.0
#include "bounds/load_bounds.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

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

/// How fast a device can send, receive, and both together, over its routes to all others.
struct PortRates {
  double out = unlimited;
  double in = unlimited;
  double both = unlimited;
  std::uint32_t colocated = 0; // other devices that no link lies between: seats of one device
};

constexpr std::uint32_t matched_devices = 16; // beyond, matching the peers takes too long

using LinkKey = std::pair<std::uint32_t, bool>;

/// Rate of everything that starts (or ends) at a device. `end_links` are the first (last) links of
/// its routes, `uses` counts on how many of the `routes` routes each link lies.
double port_rate(const Network &network, const std::set<LinkKey> &end_links,
                 const std::map<LinkKey, std::uint32_t> &uses, std::uint32_t routes) {
  double sum = 0;
  for (const auto &[link, reverse] : end_links) {
    sum += directed_capacity(network, {link, reverse});
  }
  for (const auto &[key, count] : uses) {
    if (count == routes)
      sum = std::min(sum, directed_capacity(network, {key.first, key.second}));
  }
  return sum;
}

/// Each link and direction of a route once, however often it goes that way.
template <class Route> std::set<LinkKey> links_of(const Route &route) {
  std::set<LinkKey> links;
  for (const LinkUse &use : route)
    links.emplace(use.link, use.reverse);
  return links;
}

PortRates port_rates(const Network &network, std::uint32_t device) {
  std::set<LinkKey> first;
  std::set<LinkKey> last;
  std::map<LinkKey, std::uint32_t> out;
  std::map<LinkKey, std::uint32_t> in;
  std::uint32_t colocated = 0;
  for (std::uint32_t other = 0; other < network.devices; ++other) {
    if (other == device)
      continue;
    const auto leaving = network.route(device, other);
    const auto entering = network.route(other, device);
    if (leaving.empty() || entering.empty()) {
      ++colocated;
      continue;
    }
    first.emplace(leaving.front().link, leaving.front().reverse);
    last.emplace(entering.back().link, entering.back().reverse);
    for (const LinkKey &key : links_of(leaving))
      ++out[key];
    for (const LinkKey &key : links_of(entering))
      ++in[key];
  }
  const std::uint32_t routes = network.devices - 1 - colocated;
  if (routes == 0)
    return {};
  PortRates rates{port_rate(network, first, out, routes), port_rate(network, last, in, routes),
                  unlimited, colocated};
  for (const auto &[key, count] : out) {
    const auto back = in.find({key.first, !key.second});
    if (count == routes && back != in.end() && back->second == routes) {
      rates.both = std::min(rates.both, network.links[key.first].combined);
    }
  }
  return rates;
}

/// The k-th largest flow of a rank gets at best the k-th fastest pair.
double slowest_flow(const std::vector<double> &flows, const std::vector<double> &rates) {
  double slowest = 0;
  for (std::size_t k = 0; k < flows.size() && k < rates.size(); ++k)
    slowest = std::max(slowest, flows[k] / rates[k]);
  return slowest;
}

/// What two ranks exchange: a first, then back.
struct Exchange {
  Flow there;
  Flow back;
};

class LoadBoundsBuilder {
public:
  LoadBoundsBuilder(const Network &network, const RankTraffic &traffic)
      : network_(network), traffic_(traffic), out_(network.devices, 0), in_(network.devices, 0),
        flows_(network.devices), largest_(network.devices) {
    for (const Flow &flow : traffic.flows) {
      out_[flow.source] += flow.bytes;
      in_[flow.target] += flow.bytes;
      if (flow.bytes > 0) {
        double &least = least_messages_.try_emplace(flow.source, flow.messages).first->second;
        least = std::min(least, flow.messages);
        double &back = least_messages_.try_emplace(flow.target, flow.messages).first->second;
        back = std::min(back, flow.messages);
      }
      flows_[flow.source][flow.target].there = flow;
      flows_[flow.target][flow.source].back = flow;
    }
    for (std::uint32_t r = 0; r < network.devices; ++r) {
      for (const auto &[peer, exchange] : flows_[r])
        largest_[r].push_back(std::max(exchange.there.bytes, exchange.back.bytes));
      std::sort(largest_[r].begin(), largest_[r].end(), std::greater<>());
    }
  }

  LoadBounds build(const std::vector<std::uint32_t> &pinned, bool timed) {
    const std::uint32_t n = network_.devices;
    LoadBounds result{Matrix(n), Matrix(n), start_latency(), 0, 0};
    const Matrix isolated = isolated_rates(network_);
    const Matrix widths = route_widths(network_);
    const bool matched = n <= matched_devices;
    for (std::uint32_t d = 0; d < n; ++d) {
      const PortRates port = port_rates(network_, d);
      const double nearest = nearest_latency(d);
      const std::vector<double> rates = falling_rates(d, isolated);
      const std::vector<double> widest = falling_rates(d, widths);
      for (std::uint32_t r = 0; r < n; ++r) {
        const bool barred = pinned[r] != Qap::no_pin && pinned[r] != d;
        const Load load = unavoidable(r, port.colocated);
        const double port_load =
            std::max({load.out / port.out, load.in / port.in, load.both / port.both});
        const double congestion = std::max(port_load, slowest_flow(largest_[r], widest));
        result.congestion(r, d) = barred ? unlimited : congestion;
        const auto least = least_messages_.find(r);
        const double start = least == least_messages_.end() ? 0 : least->second * nearest;
        double time = port_load > 0 ? port_load + start : start;
        if (matched && !barred && timed) {
          time = flows_matched(r, d, isolated, pinned, time);
        } else if (timed) {
          time = std::max(time, start + slowest_flow(largest_[r], rates));
        }
        result.time(r, d) = barred ? unlimited : time;
      }
    }
    result.congestion_s = bottleneck_assignment(result.congestion);
    if (timed)
      result.time_s = std::max(bottleneck_assignment(result.time), best_case_of_flows(isolated));
    return result;
  }

private:
  struct Load {
    double out;
    double in;
    double both;
  };

  /// Bytes of a rank that links carry even if its heaviest peers share its device.
  Load unavoidable(std::uint32_t rank, std::uint32_t colocated) const {
    Load load{out_[rank], in_[rank], out_[rank] + in_[rank]};
    if (colocated == 0)
      return load;
    std::vector<double> out;
    std::vector<double> in;
    std::vector<double> both;
    for (const auto &[peer, exchange] : flows_[rank]) {
      out.push_back(exchange.there.bytes);
      in.push_back(exchange.back.bytes);
      both.push_back(exchange.there.bytes + exchange.back.bytes);
    }
    return {without_largest(out, colocated), without_largest(in, colocated),
            without_largest(both, colocated)};
  }

  static double without_largest(std::vector<double> &values, std::size_t count) {
    std::sort(values.begin(), values.end());
    values.resize(values.size() - std::min(count, values.size()));
    return std::accumulate(values.begin(), values.end(), 0.0);
  }

  double latency(std::uint32_t from, std::uint32_t to) const {
    return network_.latency[from * std::size_t{network_.devices} + to];
  }

  double nearest_latency(std::uint32_t device) const {
    double nearest = unlimited;
    for (std::uint32_t other = 0; other < network_.devices; ++other) {
      if (other != device)
        nearest = std::min({nearest, latency(device, other), latency(other, device)});
    }
    return nearest < unlimited ? nearest : 0;
  }

  /// Of the pairs of a device, each with the faster of its directions.
  static std::vector<double> falling_rates(std::uint32_t device, const Matrix &isolated) {
    std::vector<double> rates;
    for (std::uint32_t other = 0; other < isolated.n; ++other) {
      if (other != device)
        rates.push_back(std::max(isolated(device, other), isolated(other, device)));
    }
    std::sort(rates.begin(), rates.end(), std::greater<>());
    return rates;
  }

  /// The peers of a rank on `device` sit on different devices: the least possible maximum over
  /// them of what each flow takes alone, or `at_least`.
  double flows_matched(std::uint32_t rank, std::uint32_t device, const Matrix &isolated,
                       const std::vector<std::uint32_t> &pinned, double at_least) const {
    Matrix alone(network_.devices); // peers first, then rows of zeros
    std::size_t row = 0;
    for (const auto &[peer, exchange] : flows_[rank]) {
      for (std::uint32_t d = 0; d < network_.devices; ++d) {
        const bool barred = d == device || (pinned[peer] != Qap::no_pin && pinned[peer] != d);
        alone(row, d) = barred ? unlimited
                               : std::max(seconds_alone(exchange.there, device, d, isolated),
                                          seconds_alone(exchange.back, d, device, isolated));
      }
      ++row;
    }
    return row == 0 ? at_least : bottleneck_assignment(alone, at_least);
  }

  double seconds_alone(const Flow &flow, std::uint32_t from, std::uint32_t to,
                       const Matrix &isolated) const {
    const double transfer = flow.bytes > 0 ? flow.bytes / isolated(from, to) : 0;
    return flow.messages * latency(from, to) + transfer;
  }

  double start_latency() const {
    double latency = unlimited;
    for (std::uint32_t a = 0; a < network_.devices; ++a) {
      for (std::uint32_t b = 0; b < network_.devices; ++b) {
        if (a != b) {
          latency = std::min(latency, network_.latency[a * std::size_t{network_.devices} + b]);
        }
      }
    }
    double messages = unlimited;
    for (const Flow &flow : traffic_.flows) {
      if (flow.bytes > 0)
        messages = std::min(messages, flow.messages);
    }
    return latency < unlimited && messages < unlimited ? latency * messages : 0;
  }

  /// Every flow on the pair that suits it best: up to 16 devices the matched flows say as much.
  /// Only the pairs that no other beats in latency and rate at once matter; there are few.
  double best_case_of_flows(const Matrix &isolated) const {
    std::set<std::pair<double, double>> all; // latency, seconds per byte
    for (std::uint32_t a = 0; a < network_.devices; ++a) {
      for (std::uint32_t b = 0; b < network_.devices; ++b) {
        if (a == b)
          continue;
        all.emplace(network_.latency[a * std::size_t{network_.devices} + b], 1 / isolated(a, b));
      }
    }
    std::vector<std::pair<double, double>> pairs;
    for (const auto &each : all) {
      if (pairs.empty() || each.second < pairs.back().second)
        pairs.push_back(each);
    }
    double worst = 0;
    for (const Flow &flow : traffic_.flows) {
      double best = unlimited;
      for (const auto &[latency, pace] : pairs) {
        best = std::min(best, flow.messages * latency + flow.bytes * pace);
      }
      worst = std::max(worst, best);
    }
    return worst;
  }

  const Network &network_;
  const RankTraffic &traffic_;
  std::vector<double> out_;
  std::vector<double> in_;
  std::map<std::uint32_t, double> least_messages_;       // of a rank's flows that carry bytes
  std::vector<std::map<std::uint32_t, Exchange>> flows_; // of a rank, by peer
  std::vector<std::vector<double>> largest_; // of a rank: larger direction per peer, falling
};

/// Bipartite matchings over entries that are not above a limit, by augmenting paths (Kuhn).
class Matching {
public:
  explicit Matching(const Matrix &matrix) : matrix_(matrix), row_of_(matrix.n), seen_(matrix.n) {}

  bool perfect(double limit) {
    limit_ = limit;
    std::fill(row_of_.begin(), row_of_.end(), matrix_.n);
    for (std::size_t row = 0; row < matrix_.n; ++row) {
      std::fill(seen_.begin(), seen_.end(), char{0});
      if (!augment(row))
        return false;
    }
    return true;
  }

private:
  bool augment(std::size_t row) {
    for (std::size_t column = 0; column < matrix_.n; ++column) {
      if (matrix_(row, column) > limit_ || seen_[column] != 0)
        continue;
      seen_[column] = 1;
      if (row_of_[column] == matrix_.n || augment(row_of_[column])) {
        row_of_[column] = row;
        return true;
      }
    }
    return false;
  }

  const Matrix &matrix_;
  double limit_ = 0;
  std::vector<std::size_t> row_of_; // by column; n: none
  std::vector<char> seen_;          // columns
};

/// Of rows and columns: an assignment has an entry of each. Mostly that is the least maximum.
double largest_minimum(const Matrix &matrix) {
  std::vector<double> of_column(matrix.n, unlimited);
  double largest = 0;
  for (std::size_t row = 0; row < matrix.n; ++row) {
    double of_row = unlimited;
    for (std::size_t column = 0; column < matrix.n; ++column) {
      of_row = std::min(of_row, matrix(row, column));
      of_column[column] = std::min(of_column[column], matrix(row, column));
    }
    largest = std::max(largest, of_row);
  }
  return std::accumulate(of_column.begin(), of_column.end(), largest,
                         [](double a, double b) { return std::max(a, b); });
}

} // namespace

Matrix isolated_rates(const Network &network) {
  Matrix rates = route_widths(network);
  for (std::size_t pair = 0; pair < rates.values.size(); ++pair)
    rates.values[pair] = std::min(rates.values[pair], network.cap[pair]);
  return rates;
}

double bottleneck_assignment(const Matrix &matrix, double at_least) {
  const double least = std::max(at_least, largest_minimum(matrix));
  Matching matching(matrix);
  if (matching.perfect(least))
    return least;
  std::vector<double> values;
  std::copy_if(matrix.values.begin(), matrix.values.end(), std::back_inserter(values),
               [&](double each) { return each > least; });
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  std::size_t low = 0;
  std::size_t high = values.empty() ? 0 : values.size() - 1;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (matching.perfect(values[middle])) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return values.empty() ? least : values[low];
}

LoadBounds load_bounds(const Network &network, const RankTraffic &traffic,
                       const std::vector<std::uint32_t> &pinned, bool timed) {
  return LoadBoundsBuilder(network, traffic).build(pinned, timed);
}

} // namespace toposeat
