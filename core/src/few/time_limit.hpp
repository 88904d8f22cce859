// What takes longer than a limit without having to be timed, on few devices.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "few/lone_flows.hpp"
#include "toposeat/problem/assignment.hpp"

namespace toposeat {

/// Two lower bounds of the flow time. A flow takes at least what it takes alone: so much for each
/// pair of ranks on each pair of devices. And of the flows over a link, those with so many messages
/// or more take at least the earliest start of them plus all their bytes at full capacity.
class TimeLimit {
public:
  static constexpr std::size_t width = 8; // devices, and ranks

  /// Must outlive the object, and know no more than `width` devices.
  TimeLimit(const LoneFlows &flows, double limit_s);

  [[nodiscard]] double seconds() const { return limit_s_; }

  /// Lowers the limit.
  void tighten(double limit_s) {
    limit_s_ = limit_s;
    forbid_slow_pairs();
  }

  /// Devices, as a set of bits, on which `other` can be while `rank` is on `device`, as far as
  /// what these two exchange is concerned.
  [[nodiscard]] std::uint32_t devices_beside(std::size_t rank, std::size_t device,
                                             std::size_t other) const {
    return beside_[rank][device][other];
  }

  /// Whether a placement is known to take longer.
  [[nodiscard]] bool exceeded(const Assignment &placement);

private:
  /// What the flows seen so far bring over a constraint.
  struct Load {
    double start = unlimited; // of the first of them
    double seconds = 0;
  };

  void forbid_slow_pairs();

  const LoneFlows &flows_;
  double limit_s_;
  std::vector<double> paces_; // of the constraints
  std::vector<Load> loads_;   // likewise
  std::array<std::array<std::array<std::uint8_t, width>, width>, width> beside_{};
};

} // namespace toposeat
