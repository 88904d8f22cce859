// What is asked of a mapper: machine, traffic, objective, method and restrictions; what it answers.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "toposeat/base/deadline.hpp"
#include "toposeat/base/shared.hpp"
#include "toposeat/problem/matrix.hpp"
#include "toposeat/problem/network.hpp"

namespace toposeat {

enum class Objective : std::uint8_t { cost, congestion, time };

/// automatic: exact where that is quick, else search, then what is left of the budget for a proof.
/// search: no enumeration; the certificate comes from bounds alone.
/// keep_default and random: no choice is made; the certificate judges that placement.
enum class Method : std::uint8_t { automatic, exact, search, keep_default, random };

[[nodiscard]] inline bool chooses_placement(Method method) {
  return method != Method::keep_default && method != Method::random;
}

struct MapRequest {
  Shared<Network> network;
  Shared<RankTraffic> traffic;
  /// Devices x devices, per byte, for Objective::cost and for candidates; the diagonal is what ranks
  /// on one device pay. Empty: there is none, and the objective is another.
  Matrix cost = {};
  std::vector<std::uint32_t> devices = {}; // that may be used, in default order; empty: all
  std::vector<std::uint32_t> pinned = {};  // device per rank or no_pin; empty: no pins
  Objective objective = Objective::time;
  Method method = Method::automatic;
  double budget_s = 1;
  std::uint64_t seed = 1;
  Matrix message_cost = {};              // the same per message (hybrid metric); empty: none
  std::vector<std::uint32_t> slots = {}; // ranks that each of `devices` takes; empty: one
  std::vector<std::vector<std::uint32_t>> allowed = {}; // devices per rank, empty: all; or none
  std::vector<std::uint32_t> host_of_device = {};       // of all devices; empty: one host
  const StopFlag *stop = nullptr; // when set to true, the best so far is returned
};

/// The answer, on machines of every size.
struct MapAnswer {
  Assignment device_of_rank;         // slots of a machine that has no devices
  double value = 0;                  // of the objective
  std::optional<double> lower_bound; // over all placements that devices and pins allow
  bool proved = false;               // value equals the lower bound within 1e-9
  bool kept_default = false;         // the default placement is returned
  bool uniform = false;              // all placements are equally good: no order gains anything
  bool interrupted = false;          // `stop` was set: another answer than without
  std::string solver; // what found or proved it: "tree", "branch and bound", "search" ...
  std::vector<std::string> notes;
};

/// Ranks that cannot all be seated because together they may only use these devices.
struct SeatingConflict {
  std::vector<std::uint32_t> ranks;
  std::vector<std::uint32_t> devices;
};

/// Where ranks go without a mapper: hosts are filled one after the other, in the order of the
/// devices; within a host the ranks go round the devices, as `local_rank % devices` does, until all
/// slots are taken. Pinned ranks sit where they are pinned; the others take the seats left, in
/// order. A rank that may not use the next seat takes the next one that it may use, and ranks
/// before it make room if there is none.
///
/// Throws std::invalid_argument as `solve` does.
[[nodiscard]] Assignment default_assignment(const MapRequest &request);

/// Fewest ranks found that pins, allowed devices and slots leave too few seats for (Hall's
/// condition); nothing if all ranks can be seated. Throws std::invalid_argument on numbers that do
/// not exist.
[[nodiscard]] std::optional<SeatingConflict> seating_conflict(const MapRequest &request);

} // namespace toposeat
