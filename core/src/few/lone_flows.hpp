// What each flow of a traffic takes alone on each pair of a few devices, and what limits it there.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "flow/pair_constraints.hpp"
#include "toposeat/problem/network.hpp"

namespace toposeat {

/// All of it is computed at once: memory and time grow with flows and pairs of devices.
class LoneFlows {
public:
  /// A flow on a pair of devices, alone: bytes move from `start` on, at `rate`.
  struct Alone {
    double start = 0;
    double rate = unlimited;
    double seconds = 0;
  };

  /// Both must outlive the object.
  LoneFlows(const Network &network, const RankTraffic &traffic);

  [[nodiscard]] const Network &network() const { return network_; }

  /// By falling number of messages; places in this list are what `flow` means below.
  [[nodiscard]] const std::vector<Flow> &flows() const { return flows_; }

  [[nodiscard]] const Alone &alone(std::size_t flow, std::uint32_t from, std::uint32_t to) const {
    return alone_[flow * pairs() + pair(from, to)];
  }

  /// Numbers of the constraints of a pair, in the order of its route.
  [[nodiscard]] std::span<const std::uint32_t> constraints(std::uint32_t from,
                                                           std::uint32_t to) const {
    return std::span(elements_).subspan(begin_[pair(from, to)],
                                        begin_[pair(from, to) + 1] - begin_[pair(from, to)]);
  }

  /// Bytes per second of each constraint.
  [[nodiscard]] const std::vector<double> &capacities() const { return capacities_; }

private:
  [[nodiscard]] std::size_t pair(std::uint32_t from, std::uint32_t to) const {
    return std::size_t{from} * network_.devices + to;
  }
  [[nodiscard]] std::size_t pairs() const {
    return std::size_t{network_.devices} * network_.devices;
  }
  void list_constraints();

  const Network &network_;
  std::vector<Flow> flows_;
  std::vector<Alone> alone_;       // by flow and pair
  std::vector<std::size_t> begin_; // by pair, of its
  std::vector<std::uint32_t> elements_;
  std::vector<double> capacities_;
};

} // namespace toposeat
