// Latency and rate of flows on pairs whose numbers depend on the message size.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "toposeat/problem/network.hpp"

namespace toposeat {

/// What the messages of a flow need on a pair, alone: `latency` seconds for all of them, and then
/// their bytes at `rate`.
struct MessageTime {
  double latency = 0;
  double rate = unlimited;
};

/// Of a flow of n messages and V bytes, with sizes M_k = factor_k x V / n in shares w_k, on a curve
/// of latency L and rate B:
///
///     latency = n x sum_k w_k L(M_k)          rate = V / (n x sum_k w_k M_k / B(M_k))
///
/// so that the flow alone takes what its messages take one after the other. Bytes without messages
/// count as one message that pays no latency.
[[nodiscard]] MessageTime message_time(const SizeCurve &curve, const std::vector<SizeShare> &sizes,
                                       const Flow &flow);

/// `message_time` of every flow on every pair; computed in advance where that is little.
class MessageTimes {
public:
  /// Both must outlive the object.
  MessageTimes(const Network &network, const RankTraffic &traffic);

  /// Within the cap of the pair.
  [[nodiscard]] MessageTime of(std::uint32_t flow, std::size_t pair) const {
    if (network_.curve(pair) != none_of_pair)
      return on_curve(flow, pair);
    return {traffic_.flows[flow].messages * network_.latency[pair], network_.cap[pair]};
  }

private:
  [[nodiscard]] MessageTime on_curve(std::uint32_t flow, std::size_t pair) const;

  const Network &network_;
  const RankTraffic &traffic_;
  std::vector<MessageTime> table_; // by flow and curve; empty: computed when asked for
};

} // namespace toposeat
