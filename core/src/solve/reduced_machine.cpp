// SPDX-License-Identifier: MIT OR Apache-2.0
#include "solve/reduced_machine.hpp"

#include <stdexcept>
#include <string>

#include "solve/seating.hpp"

namespace toposeat {
namespace {

Network restricted(const Network &network, const std::vector<std::uint32_t> &devices) {
  Network result;
  result.devices = static_cast<std::uint32_t>(devices.size());
  result.links = network.links;
  result.pair_limits = network.pair_limits; // seats of one device share those of the device
  result.curves = network.curves;
  result.route_begin.push_back(0);
  for (const std::uint32_t a : devices) {
    for (const std::uint32_t b : devices) {
      const auto route = network.route(a, b); // empty within a device
      result.route_uses.insert(result.route_uses.end(), route.begin(), route.end());
      result.route_begin.push_back(static_cast<std::uint32_t>(result.route_uses.size()));
      const std::size_t pair = a * std::size_t{network.devices} + b;
      result.cap.push_back(network.cap[pair]);
      result.latency.push_back(network.latency[pair]);
      if (!network.limit_of_pair.empty())
        result.limit_of_pair.push_back(network.limit_of_pair[pair]);
      if (!network.curve_of_pair.empty())
        result.curve_of_pair.push_back(network.curve_of_pair[pair]);
    }
  }
  return result;
}

Matrix between_seats(const Matrix &cost, const std::vector<std::uint32_t> &device_of_seat) {
  Matrix result(device_of_seat.size());
  for (std::size_t i = 0; i < device_of_seat.size(); ++i) {
    for (std::size_t j = 0; j < device_of_seat.size(); ++j)
      result(i, j) = cost(device_of_seat[i], device_of_seat[j]);
  }
  return result;
}

std::string listed(const std::string &what, const std::vector<std::uint32_t> &numbers) {
  std::string text = what;
  for (const std::uint32_t number : numbers)
    text += (number == numbers.front() ? " " : ", ") + std::to_string(number);
  return text;
}

Assignment seated(const Seating &seating, std::uint32_t ranks) {
  DefaultSeats seats(seating, ranks);
  if (seats.conflict)
    throw std::invalid_argument(listed("ranks", seats.conflict->ranks) + " may only use " +
                                listed("devices", seats.conflict->devices));
  return std::move(seats.seat_of_rank);
}

} // namespace

ReducedMachine::ReducedMachine(const MapRequest &request) {
  Seating seating(request);
  home = seated(seating, request.traffic.ranks);
  device_of_seat = std::move(seating.device_of_seat);
  pinned = std::move(seating.pinned);
  allowed = std::move(seating.allowed);
  if (request.cost.n != request.network.devices)
    throw std::invalid_argument("expected a cost for every pair of devices");
  network = restricted(request.network, device_of_seat);
  cost = between_seats(request.cost, device_of_seat);
  if (request.message_cost.n == 0)
    return;
  if (request.message_cost.n != request.network.devices)
    throw std::invalid_argument("expected a message cost for every pair of devices");
  message_cost = between_seats(request.message_cost, device_of_seat);
}

Assignment ReducedMachine::original(const Assignment &seats, std::uint32_t ranks) const {
  Assignment result(ranks);
  for (std::uint32_t r = 0; r < ranks; ++r)
    result[r] = device_of_seat[seats[r]];
  return result;
}

Assignment default_assignment(const MapRequest &request) {
  const Seating seating(request);
  Assignment placement = seated(seating, request.traffic.ranks);
  for (std::uint32_t &each : placement)
    each = seating.device_of_seat[each];
  return placement;
}

std::optional<SeatingConflict> seating_conflict(const MapRequest &request) {
  return DefaultSeats(Seating(request), request.traffic.ranks).conflict;
}

} // namespace toposeat
