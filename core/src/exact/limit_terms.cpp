// SPDX-License-Identifier: MIT OR Apache-2.0
#include "exact/limit_terms.hpp"

#include <algorithm>
#include <cmath>

#include "bounds/load_bounds.hpp"

namespace toposeat {
namespace {

constexpr double tolerance = 1e-9;
constexpr std::int32_t no_limit = 1 << 30; // no sum is more

/// See `LimitTerms`; remainders of doubles are exact.
double unit_of(const RankTraffic &traffic, std::int32_t most_uses) {
  double total = 0;
  double divisor = 0;
  for (const Flow &flow : traffic.flows) {
    total += flow.bytes;
    for (double rest = flow.bytes; rest > 0;) {
      const double next = std::fmod(divisor, rest);
      divisor = rest;
      rest = next;
    }
  }
  if (!(total > 0))
    return 1;
  return std::max(divisor, total * most_uses / no_limit);
}

} // namespace

LimitTerms::LimitTerms(const LoadProblem &problem, const std::vector<std::uint32_t> &order,
                       bool timed)
    : problem_(problem), timed_(timed), ranks_(order.size()) {
  list_terms();
  std::int32_t most_uses = 1;
  for (const Term &term : terms_) {
    for (const auto &line : term.uses)
      most_uses = std::max(most_uses, *std::max_element(line.begin(), line.end()));
  }
  unit_ = unit_of(problem.traffic, most_uses);
  place_traffic(order);
  if (timed_) {
    rates_ = isolated_rates(problem.network);
    delay_terms();
  }
  fill_lines();
  for (auto &lines : beside_) {
    for (auto &line : lines)
      line.fill(~0U);
  }
}

void LimitTerms::place_traffic(const std::vector<std::uint32_t> &order) {
  std::vector<std::size_t> place(problem_.traffic.ranks, order.size());
  for (std::size_t p = 0; p < order.size(); ++p)
    place[order[p]] = p;
  for (const Flow &flow : problem_.traffic.flows) {
    if (!(flow.bytes > 0) && !(flow.messages > 0))
      continue; // its ranks may not be in the order
    const std::size_t from = place[flow.source];
    const std::size_t to = place[flow.target];
    flows_[from][to] = flow;
    units_[from][to] = static_cast<std::int32_t>(std::floor(flow.bytes / unit_));
    talk_[from][to] = talk_[to][from] = true;
  }
}

void LimitTerms::list_terms() {
  const Network &network = problem_.network;
  constexpr std::size_t unknown = ~std::size_t{0};
  std::vector<std::array<std::size_t, 3>> number(network.links.size(), {unknown, unknown, unknown});
  const auto use = [&](std::size_t &term, double capacity, std::size_t a, std::size_t b) {
    if (std::isinf(capacity))
      return;
    if (term == unknown) {
      term = terms_.size();
      terms_.emplace_back().capacity = capacity;
    }
    ++terms_[term].uses[a][b];
  };
  for (std::uint32_t a = 0; a < network.devices; ++a) {
    for (std::uint32_t b = 0; b < network.devices; ++b) {
      for (const LinkUse &each : network.route(a, b)) {
        const LinkCapacity &link = network.links[each.link];
        auto &terms = number[each.link];
        use(terms[each.reverse ? 1 : 0], each.reverse ? link.backward : link.forward, a, b);
        use(terms[2], link.combined, a, b);
      }
    }
  }
  stride_ = std::max((terms_.size() + limit_lanes - 1) / limit_lanes, std::size_t{1}) * limit_lanes;
}

void LimitTerms::delay_terms() {
  const Network &network = problem_.network;
  double fewest = unlimited;
  for (const Flow &flow : problem_.traffic.flows) {
    if (flow.bytes > 0)
      fewest = std::min(fewest, flow.messages);
  }
  if (std::isinf(fewest))
    return; // no bytes
  for (Term &term : terms_) {
    double nearest = unlimited;
    for (std::size_t a = 0; a < network.devices; ++a) {
      for (std::size_t b = 0; b < network.devices; ++b) {
        if (term.uses[a][b] > 0)
          nearest = std::min(nearest, network.latency[a * network.devices + b]);
      }
    }
    term.start_s = fewest * nearest;
  }
}

void LimitTerms::fill_lines() {
  constexpr std::size_t width = max_limited_devices;
  leaving_ = WholeLines(width * width * stride_);
  entering_ = WholeLines(width * width * stride_);
  for (std::size_t t = 0; t < terms_.size(); ++t) {
    for (std::size_t a = 0; a < width; ++a) {
      for (std::size_t b = 0; b < width; ++b) {
        leaving_.data()[(a * width + b) * stride_ + t] = terms_[t].uses[a][b];
        entering_.data()[(b * width + a) * stride_ + t] = terms_[t].uses[a][b];
      }
    }
  }
}

void LimitTerms::fill_limits(double below_s, std::int32_t *most) const {
  std::fill_n(most, stride_, no_limit);
  for (std::size_t t = 0; t < terms_.size(); ++t) {
    const double seconds = below_s * (1 - tolerance) - terms_[t].start_s;
    const double units = std::floor(seconds * terms_[t].capacity / unit_);
    most[t] = static_cast<std::int32_t>(std::clamp(units, 0.0, static_cast<double>(no_limit)));
  }
}

bool LimitTerms::too_slow(std::size_t from, std::size_t to, std::size_t a, std::size_t b,
                          double below_s) const {
  const Flow &flow = flows_[from][to];
  const double transfer = flow.bytes > 0 ? flow.bytes / rates_(a, b) : 0;
  const double latency = problem_.network.latency[a * problem_.network.devices + b];
  return flow.messages * latency + transfer >= below_s * (1 - tolerance);
}

void LimitTerms::limit_flows(double below_s) {
  if (!timed_)
    return;
  for (std::size_t p = 0; p < ranks_; ++p) {
    for (std::size_t q = 0; q < ranks_; ++q) {
      for (std::size_t a = 0; a < problem_.network.devices && talk_[p][q]; ++a) {
        std::uint32_t &devices = beside_[p][q][a];
        devices = 0;
        for (std::size_t b = 0; b < problem_.network.devices; ++b) {
          if (b != a && !too_slow(p, q, a, b, below_s) && !too_slow(q, p, b, a, below_s))
            devices |= 1U << b;
        }
      }
    }
  }
}

} // namespace toposeat
