// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/problem/network_builder.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

namespace toposeat {

std::uint32_t NetworkBuilder::add_switch() {
  graph_.forwards.push_back(true);
  return graph_.vertices() - 1;
}

std::uint32_t NetworkBuilder::link(double forward, double backward, double combined) {
  links_.push_back({forward, backward, combined});
  return static_cast<std::uint32_t>(links_.size() - 1);
}

std::uint32_t NetworkBuilder::join(std::uint32_t a, std::uint32_t b, const LinkCapacity &capacity,
                                   double latency_s) {
  graph_.links.push_back(
      {a, b, latency_s, std::min({capacity.forward, capacity.backward, capacity.combined})});
  number_.push_back(link(capacity.forward, capacity.backward, capacity.combined));
  return number_.back();
}

NetworkBuilder &NetworkBuilder::route(std::uint32_t from, std::uint32_t to,
                                      std::vector<LinkUse> uses, double cap, double latency_s) {
  if (std::max(from, to) >= devices_)
    throw std::invalid_argument("a route of a device that does not exist");
  stated_[{from, to}] = {std::move(uses), cap, latency_s};
  return *this;
}

NetworkBuilder::Route NetworkBuilder::along(const LinkPath &path, std::uint32_t from) const {
  Route route;
  for (const std::uint32_t each : path) {
    const GraphLink &link = graph_.links[each];
    route.uses.push_back({number_[each], link.a != from});
    route.latency_s += link.latency_s;
    from = link.a == from ? link.b : link.a;
  }
  return route;
}

Network NetworkBuilder::build() const {
  std::vector<std::uint32_t> ends(devices_);
  std::iota(ends.begin(), ends.end(), 0U);
  const std::vector<LinkPath> paths = shortest_routes(graph_, ends, ends);
  Network network;
  network.devices = devices_;
  network.links = links_;
  network.route_begin.push_back(0);
  for (const std::uint32_t from : ends) {
    for (const std::uint32_t to : ends) {
      const auto stated = stated_.find({from, to});
      const LinkPath &path = paths[std::size_t{from} * devices_ + to];
      if (stated == stated_.end() && path.empty() && from != to)
        throw std::invalid_argument("no route leads from device " + std::to_string(from) +
                                    " to device " + std::to_string(to));
      const Route route = stated == stated_.end() ? along(path, from) : stated->second;
      network.route_uses.insert(network.route_uses.end(), route.uses.begin(), route.uses.end());
      network.route_begin.push_back(static_cast<std::uint32_t>(network.route_uses.size()));
      network.cap.push_back(route.cap);
      network.latency.push_back(route.latency_s);
    }
  }
  network.validate();
  return network;
}

} // namespace toposeat
