// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/machines/switch_routes.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <stdexcept>
#include <utility>

#include "machines/machine_checks.hpp"

namespace toposeat {
namespace {

constexpr std::uint64_t most_entries = 1U << 24; // of the forwarding tables
constexpr double unreached = std::numeric_limits<double>::infinity();
constexpr double same_length = 1e-9; // relative

using Lists = std::vector<std::vector<std::uint32_t>>;

/// Lengths of the shortest paths from every switch to `goal`.
std::vector<double> lengths_to(std::uint32_t goal, const std::vector<SwitchLink> &links,
                               const Lists &into) {
  std::vector<double> length(into.size(), unreached);
  using Entry = std::pair<double, std::uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  length[goal] = 0;
  open.emplace(0, goal);
  while (!open.empty()) {
    const auto [far, here] = open.top();
    open.pop();
    if (far > length[here])
      continue;
    for (const std::uint32_t link : into[here]) {
      const double longer = far + links[link].weight;
      if (longer < length[links[link].from]) {
        length[links[link].from] = longer;
        open.emplace(longer, links[link].from);
      }
    }
  }
  return length;
}

} // namespace

SwitchRoutes::SwitchRoutes(std::uint32_t switches, std::vector<SwitchLink> links,
                           std::vector<std::uint32_t> stops, const std::vector<double> &share,
                           bool spread)
    : switches_(switches), links_(std::move(links)), stops_(std::move(stops)), spread_(spread) {
  if (stops_.empty() || share.size() != stops_.size())
    throw std::invalid_argument("a network needs switches with hosts, and a share for each");
  if (std::uint64_t{switches_} * stops_.size() > most_entries ||
      std::uint64_t{stops_.size()} * stops_.size() > most_entries)
    throw std::invalid_argument("a network of " + std::to_string(switches_) + " switches, " +
                                std::to_string(stops_.size()) +
                                " of them with hosts: more than memory is good for");
  for (const std::uint32_t stop : stops_) {
    if (stop >= switches_)
      throw std::invalid_argument("a host is on a switch that does not exist");
  }
  for (const SwitchLink &link : links_) {
    if (link.from >= switches_ || link.to >= switches_ || link.from == link.to)
      throw std::invalid_argument("a link must join two switches");
    check_capacities({link.bandwidth, link.weight});
    check_numbers({link.latency}, 0, "a latency is");
  }
  find_next_links();
  price(uniform_load(share));
}

void SwitchRoutes::find_next_links() {
  Lists into(switches_);
  Lists out(switches_);
  for (std::uint32_t link = 0; link < links_.size(); ++link) {
    into[links_[link].to].push_back(link);
    out[links_[link].from].push_back(link);
  }
  begin_.push_back(0);
  for (const std::uint32_t stop : stops_) {
    const std::vector<double> length = lengths_to(stop, links_, into);
    for (const std::uint32_t other : stops_) {
      if (length[other] == unreached)
        throw std::invalid_argument("two hosts are not joined by the network");
    }
    std::vector<std::uint32_t> &order = order_.emplace_back();
    for (std::uint32_t here = 0; here < switches_; ++here) {
      if (length[here] != unreached)
        order.push_back(here);
      for (const std::uint32_t link : out[here]) {
        const double over = length[links_[link].to] + links_[link].weight;
        if (here != stop && over <= length[here] * (1 + same_length))
          next_.push_back(link);
      }
      begin_.push_back(static_cast<std::uint32_t>(next_.size()));
    }
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return length[a] != length[b] ? length[a] < length[b] : a < b;
    });
  }
}

/// Calls `visit(switch, links, count)` for every switch that can reach a stop, nearest first, with
/// its next links: all that are as short, or the one that is taken.
template <class Visit> void SwitchRoutes::from_near_to_far(std::uint32_t stop, Visit visit) const {
  for (const std::uint32_t here : order_[stop]) {
    const std::size_t entry = std::size_t{stop} * switches_ + here;
    const std::uint32_t choices = begin_[entry + 1] - begin_[entry];
    visit(here, next_.data() + begin_[entry], spread_ ? choices : std::min(choices, 1U));
  }
}

std::vector<double> SwitchRoutes::uniform_load(const std::vector<double> &share) const {
  const double slots = std::accumulate(share.begin(), share.end(), 0.0);
  std::vector<double> load(links_.size(), 0);
  std::vector<double> passing(switches_);
  for (std::uint32_t stop = 0; stop < stops_.size(); ++stop) {
    std::fill(passing.begin(), passing.end(), 0);
    for (std::uint32_t p = 0; p < stops_.size(); ++p)
      passing[stops_[p]] += share[p] * share[stop] / slots;
    // Far switches pass on to near ones: the list is nearest first.
    for (auto here = order_[stop].rbegin(); here != order_[stop].rend(); ++here) {
      const std::size_t entry = std::size_t{stop} * switches_ + *here;
      const std::uint32_t all = begin_[entry + 1] - begin_[entry];
      const std::uint32_t choices = spread_ ? all : std::min(all, 1U);
      for (std::uint32_t i = 0; i < choices; ++i) {
        const std::uint32_t link = next_[begin_[entry] + i];
        load[link] += passing[*here] / choices;
        passing[links_[link].to] += passing[*here] / choices;
      }
    }
  }
  return load;
}

void SwitchRoutes::price(const std::vector<double> &load) {
  const std::size_t n = stops_.size();
  cost_.assign(n * n, 0);
  latency_.assign(n * n, 0);
  std::vector<double> cost(switches_);
  std::vector<double> latency(switches_);
  for (std::uint32_t stop = 0; stop < n; ++stop) {
    from_near_to_far(stop,
                     [&](std::uint32_t here, const std::uint32_t *links, std::uint32_t choices) {
                       cost[here] = latency[here] = 0;
                       for (std::uint32_t i = 0; i < choices; ++i) {
                         const SwitchLink &link = links_[links[i]];
                         // A link that nobody shares still takes its time. Half of it: a level of a
                         // tree is passed twice, upwards and downwards.
                         const double shared = std::max(load[links[i]], 1.0) / link.bandwidth / 2;
                         cost[here] += (shared + cost[link.to]) / choices;
                         latency[here] += (link.latency + latency[link.to]) / choices;
                       }
                     });
    for (std::uint32_t p = 0; p < n; ++p) {
      cost_[at(p, stop)] = cost[stops_[p]];
      latency_[at(p, stop)] = latency[stops_[p]];
    }
  }
  for (std::uint32_t p = 0; p < n; ++p) {
    for (std::uint32_t q = 0; q < p; ++q)
      cost_[at(p, q)] = cost_[at(q, p)] = (cost_[at(p, q)] + cost_[at(q, p)]) / 2;
  }
}

} // namespace toposeat
