// SPDX-License-Identifier: MIT OR Apache-2.0
#include "problem/reduced_machine.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "toposeat/problem/map_request.hpp"

namespace toposeat {
/// The seats of a request in default order, with what pins and allowed devices leave to each rank.
struct Seating {
  std::vector<std::uint32_t> device_of_seat;
  std::vector<std::uint32_t> pinned; // seat per rank, or Qap::no_pin; one entry per seat
  DeviceSets allowed;                // ranks x seats; empty if no rank is restricted

  /// Throws std::invalid_argument on devices, slots, pins or ranks that do not fit together.
  /// Whether all ranks can be seated is not looked at.
  explicit Seating(const MapRequest &request);
};

/// One seat per rank: see `default_assignment`. If not all ranks can be seated, `conflict` says
/// who.
struct DefaultSeats {
  std::vector<std::uint32_t> seat_of_rank;
  std::optional<SeatingConflict> conflict;

  DefaultSeats(const Seating &seating, std::uint32_t ranks);
};

namespace {

constexpr std::size_t most_seats = std::size_t{1} << 20;

std::vector<std::uint32_t> usable_devices(const MapRequest &request) {
  std::vector<std::uint32_t> devices = request.devices;
  if (devices.empty()) {
    devices.resize(request.network->devices);
    std::iota(devices.begin(), devices.end(), 0U);
  }
  std::vector<bool> seen(request.network->devices, false);
  for (const std::uint32_t device : devices) {
    if (device >= request.network->devices)
      throw std::invalid_argument("device " + std::to_string(device) + " does not exist");
    if (seen[device])
      throw std::invalid_argument("device " + std::to_string(device) + " is listed twice");
    seen[device] = true;
  }
  return devices;
}

/// Hosts in the order of their first device; in a host, every round gives each device with a slot
/// left one seat.
std::vector<std::uint32_t> seats_in_order(const MapRequest &request,
                                          const std::vector<std::uint32_t> &devices) {
  if (!request.slots.empty() && request.slots.size() != devices.size())
    throw std::invalid_argument("expected a number of slots for every device that may be used");
  if (!request.host_of_device.empty() && request.host_of_device.size() != request.network->devices)
    throw std::invalid_argument("expected a host for every device");
  const std::uint32_t most = std::max(1U, request.traffic->ranks); // more seats stay empty
  const auto slots = [&](std::size_t at) {
    return request.slots.empty() ? 1U : std::min(request.slots[at], most);
  };
  const auto host = [&](std::size_t at) {
    return request.host_of_device.empty() ? 0U : request.host_of_device[devices[at]];
  };
  std::size_t total = 0;
  for (std::size_t at = 0; at < devices.size(); ++at)
    total += slots(at);
  if (total > most_seats)
    throw std::invalid_argument(std::to_string(total) + " slots are too many");
  std::map<std::uint32_t, std::vector<std::size_t>> members;
  std::vector<std::uint32_t> hosts;
  for (std::size_t at = 0; at < devices.size(); ++at) {
    if (members[host(at)].empty())
      hosts.push_back(host(at));
    members[host(at)].push_back(at);
  }
  std::vector<std::uint32_t> seats;
  for (const std::uint32_t each : hosts) {
    std::size_t before = seats.size() + 1;
    for (std::uint32_t round = 0; before != seats.size(); ++round) {
      before = seats.size();
      for (const std::size_t at : members[each]) {
        if (round < slots(at))
          seats.push_back(devices[at]);
      }
    }
  }
  return seats;
}

} // namespace

Seating::Seating(const MapRequest &request)
    : device_of_seat(seats_in_order(request, usable_devices(request))),
      pinned(device_of_seat.size(), Qap::no_pin) {
  const std::size_t ranks = request.traffic->ranks;
  if (ranks > device_of_seat.size()) {
    throw std::invalid_argument(std::to_string(ranks) + " ranks do not fit on " +
                                std::to_string(device_of_seat.size()) + " devices or slots");
  }
  if (!request.pinned.empty() && request.pinned.size() != ranks)
    throw std::invalid_argument("expected one pin or none for every rank");
  if (!request.allowed.empty() && request.allowed.size() != ranks)
    throw std::invalid_argument("expected a list of allowed devices for every rank");
  // Seats of a device are interchangeable: pinned ranks take the first ones, whoever else may sit
  // there.
  std::vector<bool> taken(device_of_seat.size(), false);
  for (std::size_t r = 0; r < request.pinned.size(); ++r) {
    const std::uint32_t device = request.pinned[r];
    if (device == Qap::no_pin)
      continue;
    if (std::find(device_of_seat.begin(), device_of_seat.end(), device) == device_of_seat.end())
      throw std::invalid_argument("rank " + std::to_string(r) + " is pinned to device " +
                                  std::to_string(device) + ", which is not allowed");
    std::size_t seat = 0;
    while (seat < taken.size() && (taken[seat] || device_of_seat[seat] != device))
      ++seat;
    if (seat == taken.size())
      throw std::invalid_argument("more ranks are pinned to device " + std::to_string(device) +
                                  " than it takes");
    taken[seat] = true;
    pinned[r] = static_cast<std::uint32_t>(seat);
  }
  for (std::size_t r = 0; r < request.allowed.size(); ++r) {
    if (request.allowed[r].empty())
      continue;
    if (allowed.empty())
      allowed = DeviceSets(device_of_seat.size(), device_of_seat.size());
    const std::set<std::uint32_t> mine(request.allowed[r].begin(), request.allowed[r].end());
    for (std::size_t seat = 0; seat < device_of_seat.size(); ++seat) {
      if (!mine.contains(device_of_seat[seat]))
        allowed.forbid(r, seat);
    }
    if (pinned[r] != Qap::no_pin && !allowed.contains(r, pinned[r]))
      throw std::invalid_argument("rank " + std::to_string(r) + " is pinned to device " +
                                  std::to_string(request.pinned[r]) + ", which it may not use");
  }
}

namespace {

/// Ranks to seats, one rank after the other (Kuhn's augmenting paths).
class Matching {
public:
  Matching(const Seating &seating, std::uint32_t ranks)
      : seating_(seating), seat_of_rank(ranks, Qap::no_pin),
        rank_on_(seating.device_of_seat.size(), Qap::no_pin) {
    for (std::uint32_t r = 0; r < ranks; ++r) {
      if (seating.pinned[r] != Qap::no_pin)
        sit(r, seating.pinned[r]);
    }
  }

  /// Seats `rank` on the first free seat that it may use; others move up if there is none.
  bool seat(std::uint32_t rank) {
    for (std::uint32_t s = first_free_; s < rank_on_.size(); ++s) {
      if (rank_on_[s] == Qap::no_pin && seating_.allowed.contains(rank, s)) {
        sit(rank, s);
        return true;
      }
    }
    seen_.assign(rank_on_.size(), false);
    return make_room(rank);
  }

  /// After `seat` failed: everyone on a seat that was looked at, and `rank`.
  SeatingConflict conflict(std::uint32_t rank) const {
    std::set<std::uint32_t> ranks{rank};
    std::set<std::uint32_t> devices;
    for (std::size_t s = 0; s < seen_.size(); ++s) {
      if (!seen_[s])
        continue;
      devices.insert(seating_.device_of_seat[s]);
      ranks.insert(rank_on_[s]);
    }
    return {{ranks.begin(), ranks.end()}, {devices.begin(), devices.end()}};
  }

private:
  void sit(std::uint32_t rank, std::uint32_t seat) {
    seat_of_rank[rank] = seat;
    rank_on_[seat] = rank;
    while (first_free_ < rank_on_.size() && rank_on_[first_free_] != Qap::no_pin)
      ++first_free_;
  }

  bool make_room(std::uint32_t rank) {
    for (std::uint32_t s = 0; s < rank_on_.size(); ++s) {
      if (seen_[s] || !seating_.allowed.contains(rank, s))
        continue;
      seen_[s] = true;
      const std::uint32_t there = rank_on_[s];
      const bool pinned = there != Qap::no_pin && seating_.pinned[there] != Qap::no_pin;
      if (there == Qap::no_pin || (!pinned && make_room(there))) {
        sit(rank, s);
        return true;
      }
    }
    return false;
  }

  const Seating &seating_;

public:
  std::vector<std::uint32_t> seat_of_rank;

private:
  std::vector<std::uint32_t> rank_on_;
  std::vector<bool> seen_;
  std::uint32_t first_free_ = 0;
};

} // namespace

DefaultSeats::DefaultSeats(const Seating &seating, std::uint32_t ranks) {
  Matching matching(seating, ranks);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    if (seating.pinned[r] != Qap::no_pin)
      continue;
    if (!matching.seat(r)) {
      conflict = matching.conflict(r);
      return;
    }
  }
  seat_of_rank = std::move(matching.seat_of_rank);
}
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
  home = seated(seating, request.traffic->ranks);
  device_of_seat = std::move(seating.device_of_seat);
  pinned = std::move(seating.pinned);
  allowed = std::move(seating.allowed);
  const bool costs = request.cost.n != 0 || request.objective == Objective::cost;
  if (costs && request.cost.n != request.network->devices)
    throw std::invalid_argument("expected a cost for every pair of devices");
  network = restricted(*request.network, device_of_seat);
  cost = costs ? between_seats(request.cost, device_of_seat) : Matrix(device_of_seat.size());
  if (request.message_cost.n == 0)
    return;
  if (request.message_cost.n != request.network->devices)
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
  Assignment placement = seated(seating, request.traffic->ranks);
  for (std::uint32_t &each : placement)
    each = seating.device_of_seat[each];
  return placement;
}

std::optional<SeatingConflict> seating_conflict(const MapRequest &request) {
  return DefaultSeats(Seating(request), request.traffic->ranks).conflict;
}

} // namespace toposeat
