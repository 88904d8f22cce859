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
#include <optional>
#include <span>
#include <utility>
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

/// Congestion kept up to date while a search changes the assignment.
///
/// One change costs time in proportion to the flows of the ranks it moves, not to the traffic.
/// `undo` restores the saved numbers bit by bit. Bytes are whole numbers below 2^53 in practice,
/// which doubles add and subtract exactly, so that nothing drifts. The network must outlive
/// the object. No two ranks may be on one device.
class LinkLoads {
public:
  static constexpr std::uint32_t nobody = std::numeric_limits<std::uint32_t>::max();

  LinkLoads(Kept<Network> network, const RankTraffic &traffic, Assignment device_of_rank);

  /// Whatever sits on the two devices changes places; either or both may be empty.
  void exchange(std::uint32_t device_a, std::uint32_t device_b);

  /// `rank` goes to `device`; a rank that sits there takes the place left.
  void move(std::uint32_t rank, std::uint32_t device) { exchange(device_of_rank_[rank], device); }

  /// Takes back the latest change, once.
  void undo();

  /// Calls `visit(link)` for every link whose bytes the latest change, not undone, touched.
  template <class Visit> void each_changed(Visit visit) const {
    for (const SavedLink &saved : saved_)
      visit(saved.link);
  }

  [[nodiscard]] double max_s() const { return max_s_; }
  [[nodiscard]] double mean_s() const; // a pass over the links
  [[nodiscard]] std::span<const double> seconds() const { return seconds_; }
  [[nodiscard]] std::span<const LinkBytes> bytes() const { return bytes_; }
  [[nodiscard]] const Assignment &device_of_rank() const { return device_of_rank_; }
  /// Rank on a device, or `nobody`.
  [[nodiscard]] std::uint32_t rank_on(std::uint32_t device) const {
    return rank_of_device_[device];
  }

private:
  struct Sent {
    std::uint32_t source, target;
    double bytes;
  };
  struct SavedLink {
    std::uint32_t link;
    LinkBytes bytes;
    double seconds;
  };
  void add_flows_of(std::uint32_t rank, std::uint32_t except, double sign);
  void add_flow(const Sent &flow, double sign);
  void seat(std::uint32_t device_a, std::uint32_t device_b);
  void settle();

  const Network &network_;
  Assignment device_of_rank_;
  std::vector<std::uint32_t> rank_of_device_;
  std::vector<std::uint32_t> flows_begin_; // of rank r: flows_[begin[r] .. begin[r + 1])
  std::vector<Sent> flows_;                // by the rank, and received by it
  std::vector<LinkBytes> bytes_;
  std::vector<double> seconds_;
  std::vector<double> share_; // 1 / number of used links for those, else 0
  double max_s_ = 0;
  std::vector<SavedLink> saved_; // before the latest change
  std::optional<std::pair<std::uint32_t, std::uint32_t>>
      undone_; // the devices that `undo` exchanges
  double max_before_s_ = 0;
  std::vector<std::uint64_t> touched_in_; // number of the change that last saved the link
  std::uint64_t change_number_ = 0;
};

} // namespace toposeat
