// Which seats there are, and who may sit where.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <optional>
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

} // namespace toposeat
