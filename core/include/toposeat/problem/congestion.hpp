// Bytes and congestion of every link for one assignment, computed at once or kept up to date.
//
// The congestion of a link is the time in seconds that its bytes need at full capacity:
//
//     max( forward / capacity forward, backward / capacity backward,
//          (forward + backward) / combined capacity )
//
// where an unlimited capacity counts 0. The mean is taken over the links that at least one
// device-to-device route of the network uses, idle ones included, so that all assignments on one
// network share a denominator. Hop-bytes are the sum over flows of bytes x links of the route.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "toposeat/base/shared.hpp"
#include "toposeat/problem/network.hpp"

namespace toposeat {

/// Bytes over one link, from ends[0] to ends[1] and back.
struct LinkBytes {
  double forward = 0;
  double backward = 0;
};

/// Congestion in seconds of a link that carries `bytes`.
[[nodiscard]] inline double congestion_of(const LinkCapacity &link, const LinkBytes &bytes) {
  return std::max({bytes.forward / link.forward, bytes.backward / link.backward,
                   (bytes.forward + bytes.backward) / link.combined});
}

/// Everything that congestion says about one assignment; the vectors have one entry per link.
struct Congestion {
  std::vector<LinkBytes> bytes;
  std::vector<double> seconds;
  double max_s = 0;
  double mean_s = 0;
  double hop_bytes = 0;
};

/// From scratch. Throws std::invalid_argument if the assignment does not fit (see
/// `check_assignment`); network and traffic must be valid.
[[nodiscard]] Congestion congestion(const Network &network, const RankTraffic &traffic,
                                    const Assignment &device_of_rank);

/// The largest and the mean congestion of links.
struct Peak {
  double max_s = 0;
  double mean_s = 0;
};

/// As `congestion`, of many assignments of one traffic on one network: the same numbers. Both must
/// be valid and outlive the object.
class PeakModel {
public:
  PeakModel(Kept<Network> network, Kept<RankTraffic> traffic);

  /// `device_of_rank` must fit (`check_assignment`): it is not checked here.
  [[nodiscard]] Peak of(const Assignment &device_of_rank);

private:
  const Network &network_;
  const RankTraffic &traffic_;
  std::vector<double> share_; // 1 / number of used links for those, else 0
  std::vector<LinkBytes> bytes_;
};

/// For each link whether a route between two devices uses it.
[[nodiscard]] std::vector<bool> used_links(const Network &network);

/// Congestion kept up to date while a search changes the assignment, and the sum of the 6th powers of
/// the seconds: of each direction of a link, and of both where they share a capacity.
///
/// One change costs time in proportion to the flows of the ranks it moves, not to the traffic. Bytes
/// are whole numbers below 2^53 in practice, which doubles add and subtract exactly, so that loads do
/// not drift. The network must outlive the object. No two ranks may be on one device.
class LinkLoads {
public:
  static constexpr std::uint32_t nobody = std::numeric_limits<std::uint32_t>::max();

  LinkLoads(Kept<Network> network, const RankTraffic &traffic, Assignment device_of_rank);

  /// By how much the sum of powers would rise if whatever sits on two devices changed places; either
  /// or both may be empty. Nothing changes before `make`.
  double weigh(std::uint32_t device_a, std::uint32_t device_b);

  /// Makes the exchange that was weighed last, once; `undo` takes it back, once.
  void make();
  void undo();

  /// `rank` goes to `device`; a rank that sits there takes the place left.
  void move(std::uint32_t rank, std::uint32_t device) {
    weigh(device_of_rank_[rank], device);
    make();
  }

  [[nodiscard]] double max_s() const { return max_s_; }
  [[nodiscard]] double mean_s() const;    // a pass over the links
  [[nodiscard]] double power_sum() const; // the same
  [[nodiscard]] const Assignment &device_of_rank() const { return device_of_rank_; }
  /// Rank on a device, or `nobody`.
  [[nodiscard]] std::uint32_t rank_on(std::uint32_t device) const {
    return rank_of_device_[device];
  }

private:
  static constexpr std::size_t block = 16; // loads that are looked at together
  struct Sent {
    std::uint32_t source, target;
    double bytes;
  };
  void list_flows(const RankTraffic &traffic);
  void list_routes();
  void weigh_flows(std::uint32_t rank, std::uint32_t except);
  void add(std::uint32_t source, std::uint32_t target, double bytes);
  [[nodiscard]] double settle() const;
  void flip(double sign);
  /// Calls `visit(load)` for the loads of all blocks that the exchange changes.
  template <class Visit> void each_changed(Visit visit);
  /// Where a device's rank sits after the exchange that is weighed.
  [[nodiscard]] std::uint32_t later(std::uint32_t device) const {
    return device == device_a_ ? device_b_ : (device == device_b_ ? device_a_ : device);
  }

  const Network &network_;
  Assignment device_of_rank_;
  std::vector<std::uint32_t> rank_of_device_;
  std::vector<std::uint32_t> flows_begin_; // of rank r: flows_[begin[r] .. begin[r + 1])
  std::vector<Sent> flows_;                // by the rank, and received by it
  std::vector<std::uint32_t> loads_begin_; // of link l: begin[l] .. begin[l + 1], as many as limits
  std::vector<double> pace_;               // of each load: seconds of a byte
  std::vector<double> bytes_;
  std::vector<double> more_;               // bytes, by the exchange that is weighed
  std::vector<double> power_;              // the 6th, of the seconds
  std::vector<std::uint8_t> changes_;      // of each block: whether the exchange changes it
  std::vector<std::uint32_t> route_begin_; // from device a to b: route_[begin[a n + b] ..
  std::vector<std::uint32_t> route_;       // loads
  std::vector<double> share_;              // 1 / number of used links for those, else 0
  double max_s_ = 0;
  double max_before_s_ = 0;
  std::uint32_t device_a_ = 0, device_b_ = 0; // that are weighed
  bool weighed_ = false, made_ = false;       // what `make` and `undo` may do
};

} // namespace toposeat
