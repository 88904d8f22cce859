// What a limit of congestion, or of flow time, means for the bytes of each link on up to 16
// devices.
//
// A sum per directed link (and per link whose directions share a capacity), in whole units of
// bytes. For flow time the limit of link l is (limit - start[l]) x c[l], where start[l] is the
// fewest messages of any flow times the least latency over l: no byte crosses it before.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "exact/limit_kernel.hpp"
#include "problem/load_problem.hpp"

namespace toposeat {

inline constexpr std::size_t max_limited_devices = 16;

/// A number per ordered pair of ranks (by their places in an order) or of devices.
template <class T>
using PairTable = std::array<std::array<T, max_limited_devices>, max_limited_devices>;

/// The sums that congestion is the largest of (each direction of a link, and both together where
/// that has a capacity), in units of bytes that are counted in whole numbers.
///
/// The unit is the largest number that all flows are multiples of: sums are exact then, and "less
/// than the limit" is often a whole unit less. If sums can be more than 2^30 of them, it is coarser, flows are rounded down, and what exceeds a limit still does so in truth.
class LimitTerms {
public:
  /// At most `max_limited_devices` devices; `order` lists the ranks to place. With `timed`, limits
  /// are of the flow time: the bytes of a link wait for the fewest messages of any flow that
  /// carries bytes, on the nearest route over it.
  LimitTerms(const LoadProblem &problem, const std::vector<std::uint32_t> &order, bool timed);

  /// Numbers in a line: the sums, padded.
  [[nodiscard]] std::size_t stride() const { return stride_; }

  /// Units from the rank at one place of the order to that at another.
  [[nodiscard]] std::int32_t units(std::size_t from, std::size_t to) const {
    return units_[from][to];
  }
  /// Whether two ranks exchange anything that takes time.
  [[nodiscard]] bool talk(std::size_t p, std::size_t q) const { return talk_[p][q]; }

  /// Rounds of the rank at one place of the order with that at another; none unless limits are of
  /// the flow time.
  [[nodiscard]] double rounds(std::size_t p, std::size_t q) const {
    return timed_ ? flows_[p][q].rounds : 0;
  }

  /// Uses by a unit from one device to another, [to][sum]; and [from][sum] of those to a device.
  [[nodiscard]] const std::int32_t *leaving(std::size_t device) const {
    return leaving_.data() + device * max_limited_devices * stride_;
  }
  [[nodiscard]] const std::int32_t *entering(std::size_t device) const {
    return entering_.data() + device * max_limited_devices * stride_;
  }

  /// The most that each sum may be if all are to stay below `below_s`, by 1e-9 of it.
  void fill_limits(double below_s, std::int32_t *most) const;

  /// With the rank at place p on a device, devices (bits) for the one at place q on which neither
  /// flow between them takes too long alone. All devices unless limits are of the flow time.
  [[nodiscard]] std::uint32_t beside(std::size_t p, std::size_t device, std::size_t q) const {
    return beside_[p][q][device];
  }
  /// For `beside`.
  void limit_flows(double below_s);

private:
  /// One sum: seconds = start + units * unit / capacity.
  struct Term {
    double capacity = 0;
    double start_s = 0;
    PairTable<std::int32_t> uses{};
  };

  void place_traffic(const std::vector<std::uint32_t> &order);
  void list_terms();
  void delay_terms();
  void fill_lines();
  [[nodiscard]] bool too_slow(std::size_t from, std::size_t to, std::size_t a, std::size_t b,
                              double below_s) const;

  const LoadProblem &problem_;
  bool timed_;
  std::size_t ranks_;
  double unit_ = 1;
  std::vector<Term> terms_;
  std::size_t stride_ = limit_lanes;
  PairTable<std::int32_t> units_{};
  PairTable<bool> talk_{};
  PairTable<Flow> flows_{};
  Matrix rates_; // of single flows
  WholeLines leaving_;
  WholeLines entering_;
  PairTable<std::array<std::uint32_t, max_limited_devices>> beside_{};
};

} // namespace toposeat
