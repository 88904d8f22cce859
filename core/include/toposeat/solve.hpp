// One entry for all mappers: objective and method in, placement and certificate out.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "toposeat/network.hpp"
#include "toposeat/qap.hpp"

namespace toposeat {

enum class Objective : std::uint8_t { cost, congestion, time };

/// automatic: exact where that is quick, else search, then what is left of the budget for a proof.
/// search: no enumeration; the certificate comes from bounds alone.
/// scotch: its answer, repaired; the guard against slower placements holds for it too.
/// keep_default and random: no choice is made; the certificate judges that placement.
enum class Method : std::uint8_t { automatic, exact, search, scotch, keep_default, random };

struct MapRequest {
  const Network &network;
  const RankTraffic &traffic;
  Matrix cost;                        // devices x devices, for Objective::cost and for candidates
  std::vector<std::uint32_t> devices; // that may be used, in default order; empty: all
  std::vector<std::uint32_t> pinned;  // device per rank or Qap::no_pin; empty: no pins
  Objective objective = Objective::time;
  Method method = Method::automatic;
  double budget_s = 1;
  std::uint64_t seed = 1;
};

struct MapAnswer {
  Assignment device_of_rank;
  double value = 0;                  // of the objective
  std::optional<double> lower_bound; // over all placements that devices and pins allow
  bool proved = false;               // value equals the lower bound within 1e-9
  bool kept_default = false;         // the default placement is returned
  std::string solver; // what found or proved it: "tree", "branch and bound", "search" ...
  std::vector<std::string> notes;
};

/// Rank i on the i-th allowed device that no other rank is pinned to.
Assignment default_assignment(const MapRequest &request);

/// Chooses a placement. Unless the caller fixed one, it is never predicted (by flow time) to be
/// slower than the default, and it is the default if that is as good.
///
/// Throws std::invalid_argument if the ranks do not fit on the devices, or the request contradicts
/// itself (a device twice, a pin to a device that is not allowed, two pins to one device), and
/// std::runtime_error if Scotch was asked for and is missing or fails.
MapAnswer solve(const MapRequest &request);

} // namespace toposeat
