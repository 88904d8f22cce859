// The terms whose maximum is the congestion of a small machine, and what bytes add to them.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "toposeat/network.hpp"
#include "toposeat/small_loads.hpp"

namespace toposeat {

inline constexpr std::size_t small_width = max_small_loads;
using DeviceLine = std::array<double, small_width>; // a number per device

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

  [[nodiscard]] std::size_t shared() const { return shared_; }

  /// Seconds that a byte from `device` to a peer adds to the shared terms: [term][peer].
  [[nodiscard]] const DeviceLine *leaving(std::size_t device) const {
    return leaving_.data() + device * shared_;
  }
  /// The same for a byte from the peer.
  [[nodiscard]] const DeviceLine *entering(std::size_t device) const {
    return entering_.data() + device * shared_;
  }

  [[nodiscard]] const LonePaces &lone(std::size_t device) const { return lone_[device]; }

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

  std::size_t shared_ = 0;
  std::vector<DeviceLine> leaving_; // [device][term]
  std::vector<DeviceLine> entering_;
  std::array<LonePaces, small_width> lone_{};
};

} // namespace toposeat
