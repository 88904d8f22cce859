// Everything that is said of one placement, for many placements one after the other.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <vector>

#include "toposeat/flow/flow.hpp"
#include "toposeat/problem/congestion.hpp"
#include "toposeat/problem/network.hpp"

namespace toposeat {

/// See congestion.hpp and flow.hpp; `cost` is the sum over flows of bytes x cost of the pair.
struct PlacementFigures {
  double max_s = 0;
  double mean_s = 0;
  double hop_bytes = 0;
  double cost = 0;
  double flow_s = 0;
};

/// Evaluates many assignments of one traffic on one network without allocating each time.
/// Network and traffic must be valid and outlive the object. Not for use by two threads at once.
class PlacementModel {
public:
  /// `cost` is devices x devices: of a byte between two devices. Throws std::invalid_argument if
  /// it is not.
  PlacementModel(Kept<Network> network, Kept<RankTraffic> traffic, std::vector<double> cost);

  /// `device_of_rank` must fit (`check_assignment`): it is not checked here.
  [[nodiscard]] PlacementFigures figures(const Assignment &device_of_rank);

private:
  const Network &network_;
  const RankTraffic &traffic_;
  FlowModel flow_;
  PeakModel peaks_;
  std::vector<double> cost_;
};

} // namespace toposeat
