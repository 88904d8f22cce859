// The terms whose maximum is the congestion of a small machine, and what bytes add to them.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "toposeat/few/small_loads.hpp"
#include "toposeat/problem/network.hpp"

namespace toposeat {

inline constexpr std::size_t small_width = max_small_loads;
using DeviceLine = std::array<double, small_width>; // a number per device

/// What ranks exchange, or what a byte between devices costs: [from][to].
using SmallTable = std::array<DeviceLine, small_width>;

/// What a byte from one device to another adds to each of some sums, for every pair of devices.
class TermTable {
public:
  explicit TermTable(std::size_t terms = 0)
      : terms_(terms), leaving_(small_width * terms, DeviceLine{}),
        entering_(small_width * terms, DeviceLine{}), peers_(small_width * terms, 0) {}

  [[nodiscard]] std::size_t terms() const { return terms_; }

  void add(std::size_t term, std::size_t from, std::size_t to, double pace) {
    leaving_[from * terms_ + term][to] += pace;
    entering_[to * terms_ + term][from] += pace;
    peers_[from * terms_ + term] |= static_cast<std::uint8_t>(1U << to);
  }

  /// What a byte from `device` to a peer adds: [term][peer].
  [[nodiscard]] const DeviceLine *leaving(std::size_t device) const {
    return leaving_.data() + device * terms_;
  }
  /// The same for a byte from the peer.
  [[nodiscard]] const DeviceLine *entering(std::size_t device) const {
    return entering_.data() + device * terms_;
  }

  /// Where a byte from `device` adds anything to a term, as a set of peers: mostly nowhere.
  [[nodiscard]] std::uint8_t peers(std::size_t device, std::size_t term) const {
    return peers_[device * terms_ + term];
  }

private:
  std::size_t terms_;
  std::vector<DeviceLine> leaving_; // [device][term]
  std::vector<DeviceLine> entering_;
  std::vector<std::uint8_t> peers_;
};

/// Seconds per byte between a device and each peer, of terms that only those two use.
struct LonePaces {
  DeviceLine leaving{};
  DeviceLine entering{};
  DeviceLine both{}; // per byte either way
};

/// The largest of these is the largest congestion of any link: links' directions, and both together
/// where a link limits that too. Those that another one always reaches are left out.
///
/// A term that only the routes between two devices use depends on what these two exchange, and on
/// nothing else: a number per pair of devices. All other terms are shared.
class LoadTerms {
public:
  /// At most `max_small_loads` devices.
  explicit LoadTerms(const Network &network);

  /// Of the shared terms, in seconds per byte.
  [[nodiscard]] const TermTable &shared() const { return shared_; }

  [[nodiscard]] const LonePaces &lone(std::size_t device) const { return lone_[device]; }
  [[nodiscard]] const std::array<LonePaces, small_width> &lone() const { return lone_; }

private:
  /// A constraint of the machine: `pace` seconds per byte of the ordered pairs in the set.
  struct Term {
    std::uint64_t pairs = 0; // bit from * small_width + to
    double pace = 0;
    std::vector<std::size_t> again; // pairs whose route comes by more than once, each time but one
  };

  static std::vector<Term> terms_of(const Network &network);
  static bool reaches(const Term &one, const Term &other);
  bool keep_lone(const Term &term);

  TermTable shared_;
  std::array<LonePaces, small_width> lone_{};
};

} // namespace toposeat
