// What takes longer than a limit without having to be timed, on few devices.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "message_times.hpp"
#include "pair_constraints.hpp"
#include "toposeat/network.hpp"

namespace toposeat {

/// Two lower bounds of the flow time. A flow takes at least what it takes alone: so much for each
/// pair of ranks on each pair of devices. And of the flows over a link, those with so many messages
/// or more take at least the earliest start of them plus all their bytes at full capacity.
class TimeLimit {
public:
  static constexpr std::size_t width = 8; // devices, and ranks

  /// Network and traffic must outlive the object, which looks at no more than `width` of each.
  TimeLimit(const Network &network, const RankTraffic &traffic, double limit_s);

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
  /// A flow on a pair of devices, alone.
  struct Alone {
    double start = 0;
    double seconds = 0;
  };

  /// What the flows seen so far bring over a constraint.
  struct Load {
    double start = unlimited; // of the first of them
    double seconds = 0;
  };

  [[nodiscard]] std::size_t pair(std::size_t from, std::size_t to) const {
    return from * network_.devices + to;
  }
  void time_alone(const MessageTimes &messages);
  void forbid_slow_pairs();

  const Network &network_;
  double limit_s_;
  std::vector<Flow> flows_;  // of falling messages
  std::vector<Alone> alone_; // by flow and pair
  PairConstraints constraints_;
  std::vector<double> paces_; // of the constraints known
  std::vector<Load> loads_;   // likewise
  std::array<std::array<std::array<std::uint8_t, width>, width>, width> beside_{};
};

} // namespace toposeat
