// Placements that take the same time, told before they are timed.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "few/lone_flows.hpp"
#include "toposeat/problem/assignment.hpp"

namespace toposeat {

/// Equal keys of two placements: every flow starts at the same time and has the same rate alone,
/// and the same flows share constraints of the same capacities, so that the flow model does the
/// same to both. So it is where a symmetry of the network makes one of the other, and often
/// besides. (128 bits stand for all that: different ones meet with a probability of about 1e-38.)
struct TimingKey {
  std::uint64_t first = 0;
  std::uint64_t second = 0;

  bool operator==(const TimingKey &) const = default;
};

/// For unordered containers.
struct TimingKeyHash {
  std::size_t operator()(const TimingKey &key) const { return static_cast<std::size_t>(key.first); }
};

class TimingKeys {
public:
  /// Must outlive the object.
  explicit TimingKeys(const LoneFlows &flows);

  TimingKey of(const Assignment &placement);

private:
  /// Of a constraint, by the flows seen so far.
  struct Use {
    TimingKey users;
    double demand = 0; // their rates alone, together
  };

  const LoneFlows &flows_;
  std::vector<TimingKey> flow_keys_;
  std::vector<Use> uses_;
};

} // namespace toposeat
