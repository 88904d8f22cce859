// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/loads/weighted_links.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "toposeat/cost/dual_ascent.hpp"
#include "toposeat/problem/prepared_qap.hpp"

namespace toposeat {
namespace {

constexpr int ascent_passes = 60;
constexpr std::size_t ascended_means = 3; // the others have hopeless Gilmore-Lawler bounds

/// How many routes between devices use a link forwards and backwards.
struct Uses {
  double forward = 0;
  double backward = 0;
};

std::vector<Uses> uses_of_links(const Network &network) {
  std::vector<Uses> uses(network.links.size());
  for (const LinkUse &use : network.route_uses)
    (use.reverse ? uses[use.link].backward : uses[use.link].forward) += 1;
  return uses;
}

/// Seconds that a byte in each direction adds to a mean of the terms of a link's congestion.
struct Pace {
  double forward = 0;
  double backward = 0;
};

Pace pace_of(const LinkCapacity &link, const Uses &uses) {
  const bool both_used = uses.forward > 0 && uses.backward > 0;
  if (!both_used) {
    return {1 / std::min(link.forward, link.combined), 1 / std::min(link.backward, link.combined)};
  }
  // Together they fill a combined capacity sooner than both directions fill theirs.
  if (link.combined < link.forward + link.backward)
    return {1 / link.combined, 1 / link.combined};
  return {0.5 / link.forward, 0.5 / link.backward};
}

using Class = std::array<double, 5>;

LinkMean mean_of(const Network &network, const std::vector<Pace> &paces,
                 const std::vector<double> &weights) {
  LinkMean mean(network.devices);
  for (std::uint32_t a = 0; a < network.devices; ++a) {
    for (std::uint32_t b = 0; b < network.devices; ++b) {
      if (a == b)
        continue; // ranks that share a device use no link
      for (const LinkUse &use : network.route(a, b)) {
        const Pace &pace = paces[use.link];
        mean(a, b) += weights[use.link] * (use.reverse ? pace.backward : pace.forward);
      }
    }
  }
  return mean;
}

/// Bound of `problem` with these distances, as good as some passes make it.
double ascend(const Qap &problem, const LinkMean &mean, double enough, const Deadline &deadline) {
  Qap qap = problem;
  qap.distance = mean;
  const PreparedQap prepared(qap);
  const double target = (enough - prepared.constant) / prepared.scale;
  ReducedQap reduced(prepared.qap);
  reduced.improve(target, ascent_passes, deadline);
  return reduced.bound() > target ? enough : prepared.original(reduced.bound());
}

} // namespace

std::vector<LinkMean> link_means(const Network &network) {
  const std::vector<Uses> uses = uses_of_links(network);
  std::vector<Pace> paces;
  std::map<Class, std::vector<std::size_t>> classes;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const LinkCapacity &link = network.links[i];
    paces.push_back(pace_of(link, uses[i]));
    if (uses[i].forward + uses[i].backward > 0) {
      classes[{link.forward, link.backward, link.combined, uses[i].forward, uses[i].backward}]
          .push_back(i);
    }
  }
  std::vector<LinkMean> means;
  std::vector<double> all(uses.size(), 0.0);
  double used = 0;
  for (const auto &[key, members] : classes)
    used += static_cast<double>(members.size());
  for (const auto &[key, members] : classes) {
    std::vector<double> weights(uses.size(), 0.0);
    for (const std::size_t i : members) {
      weights[i] = 1 / static_cast<double>(members.size());
      all[i] = 1 / used;
    }
    means.push_back(mean_of(network, paces, weights));
  }
  if (classes.size() > 1)
    means.push_back(mean_of(network, paces, all));
  return means;
}

LinkMean least_total(const Network &network) {
  const std::vector<Uses> uses = uses_of_links(network);
  std::vector<Pace> paces;
  paces.reserve(uses.size());
  for (std::size_t i = 0; i < uses.size(); ++i)
    paces.push_back(pace_of(network.links[i], uses[i]));
  return mean_of(network, paces, std::vector<double>(uses.size(), 1.0));
}

double weighted_links_bound(const Network &network, const Qap &problem, double enough,
                            const Deadline &deadline) {
  Qap qap = problem;
  qap.flow2 = {};
  qap.distance2 = {};
  std::vector<std::pair<double, LinkMean>> ranked;
  for (LinkMean &mean : link_means(network)) {
    qap.distance = mean;
    ranked.emplace_back(gilmore_lawler_bound(qap), std::move(mean));
  }
  std::sort(ranked.begin(), ranked.end(),
            [](const auto &a, const auto &b) { return a.first > b.first; });
  ranked.resize(std::min(ranked.size(), ascended_means));
  double best = 0;
  for (auto &[bound, mean] : ranked) {
    if (!(best < enough) || deadline.expired())
      return std::min(best, enough);
    bound = std::max(bound, ascend(qap, mean, enough, deadline));
    best = std::max(best, bound);
  }
  if (best < enough && ranked.size() > 1 && !deadline.expired()) {
    std::sort(ranked.begin(), ranked.end(),
              [](const auto &a, const auto &b) { return a.first > b.first; });
    LinkMean mixed = ranked[0].second;
    for (std::size_t i = 0; i < mixed.values.size(); ++i)
      mixed.values[i] = (mixed.values[i] + ranked[1].second.values[i]) / 2;
    best = std::max(best, ascend(qap, mixed, enough, deadline));
  }
  return std::min(best, enough);
}

} // namespace toposeat
