// SPDX-License-Identifier: MIT OR Apache-2.0
#include "reduced_machine.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace toposeat {
namespace {

Network restricted(const Network &network, const std::vector<std::uint32_t> &devices) {
  Network result;
  result.devices = static_cast<std::uint32_t>(devices.size());
  result.links = network.links;
  result.route_begin.push_back(0);
  for (const std::uint32_t a : devices) {
    for (const std::uint32_t b : devices) {
      const auto route = network.route(a, b);
      result.route_uses.insert(result.route_uses.end(), route.begin(), route.end());
      result.route_begin.push_back(static_cast<std::uint32_t>(result.route_uses.size()));
      const std::size_t pair = a * std::size_t{network.devices} + b;
      result.cap.push_back(network.cap[pair]);
      result.latency.push_back(network.latency[pair]);
    }
  }
  return result;
}

std::vector<std::uint32_t> allowed_devices(const MapRequest &request) {
  std::vector<std::uint32_t> devices = request.devices;
  if (devices.empty()) {
    devices.resize(request.network.devices);
    std::iota(devices.begin(), devices.end(), 0U);
  }
  std::vector<bool> seen(request.network.devices, false);
  for (const std::uint32_t device : devices) {
    if (device >= request.network.devices)
      throw std::invalid_argument("device " + std::to_string(device) + " does not exist");
    if (seen[device])
      throw std::invalid_argument("device " + std::to_string(device) + " is listed twice");
    seen[device] = true;
  }
  if (request.traffic.ranks > devices.size()) {
    throw std::invalid_argument(std::to_string(request.traffic.ranks) + " ranks do not fit on " +
                                std::to_string(devices.size()) + " devices");
  }
  return devices;
}

} // namespace

ReducedMachine::ReducedMachine(const MapRequest &request)
    : devices(allowed_devices(request)), network(restricted(request.network, devices)),
      cost(devices.size()), pinned(devices.size(), Qap::no_pin) {
  if (request.cost.n != request.network.devices)
    throw std::invalid_argument("expected a cost for every pair of devices");
  for (std::size_t i = 0; i < devices.size(); ++i) {
    for (std::size_t j = 0; j < devices.size(); ++j)
      cost(i, j) = request.cost(devices[i], devices[j]);
  }
  if (request.pinned.empty())
    return;
  if (request.pinned.size() != request.traffic.ranks)
    throw std::invalid_argument("expected one pin or none for every rank");
  std::vector<bool> taken(devices.size(), false);
  for (std::size_t r = 0; r < request.pinned.size(); ++r) {
    if (request.pinned[r] == Qap::no_pin)
      continue;
    const auto place = std::find(devices.begin(), devices.end(), request.pinned[r]);
    if (place == devices.end())
      throw std::invalid_argument("rank " + std::to_string(r) + " is pinned to device " +
                                  std::to_string(request.pinned[r]) + ", which is not allowed");
    const auto number = static_cast<std::size_t>(place - devices.begin());
    if (taken[number])
      throw std::invalid_argument("two ranks are pinned to device " +
                                  std::to_string(request.pinned[r]));
    taken[number] = true;
    pinned[r] = static_cast<std::uint32_t>(number);
  }
}

Assignment ReducedMachine::original(const Assignment &reduced, std::uint32_t ranks) const {
  Assignment result(ranks);
  for (std::uint32_t r = 0; r < ranks; ++r)
    result[r] = devices[reduced[r]];
  return result;
}

Assignment ReducedMachine::reduced(const Assignment &original) const {
  Assignment result;
  for (const std::uint32_t device : original) {
    const auto place = std::find(devices.begin(), devices.end(), device);
    if (place == devices.end())
      throw std::invalid_argument("device " + std::to_string(device) + " is not allowed");
    result.push_back(static_cast<std::uint32_t>(place - devices.begin()));
  }
  return result;
}

} // namespace toposeat
