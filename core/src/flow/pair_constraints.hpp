// What limits the flows of each pair of devices, looked up once and kept for all assignments.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "toposeat/problem/network.hpp"

namespace toposeat {

/// A constraint is one direction of a link, both together, or a pair limit, if it is finite. They
/// are numbered as they are first met.
class PairConstraints {
public:
  static constexpr std::uint32_t most_devices = 128; // the table has an entry for each pair

  struct Constraint {
    double capacity;
    std::uint32_t link; // or no_link
  };

  /// Of the flows from one device to another.
  struct Pair {
    std::uint32_t first = unknown; // of its constraints, in the order of the route
    std::uint32_t count = 0;
    std::uint32_t first_narrow = 0;   // of those as narrow as the narrowest
    std::uint32_t narrow = 0;         // how many
    double narrowest = unlimited;     // of their capacities
    std::uint32_t narrowest_link = 0; // of the first as narrow
    bool repeats = false;             // one constraint is used twice
  };

  /// Of at most `most_devices` devices; must outlive the object.
  explicit PairConstraints(const Network &network);

  [[nodiscard]] const Pair &of(std::uint32_t from, std::uint32_t to) {
    const std::size_t pair = static_cast<std::size_t>(from) * network_.devices + to;
    if (pairs_[pair].first == unknown)
      look_up(from, to);
    return pairs_[pair];
  }

  [[nodiscard]] std::span<const std::uint32_t> elements(const Pair &pair) const {
    return std::span(elements_).subspan(pair.first, pair.count);
  }
  [[nodiscard]] std::span<const std::uint32_t> narrow_elements(const Pair &pair) const {
    return std::span(elements_).subspan(pair.first_narrow, pair.narrow);
  }
  [[nodiscard]] const std::vector<Constraint> &known() const { return constraints_; }

private:
  static constexpr std::uint32_t unknown = 0xffffffff;

  void look_up(std::uint32_t from, std::uint32_t to);
  void list_narrow(Pair &pair);
  void add(Pair &pair, std::size_t id, double capacity, std::uint32_t link);

  const Network &network_;
  std::vector<Pair> pairs_;
  std::vector<std::uint32_t> elements_;
  std::vector<Constraint> constraints_;
  std::vector<std::uint32_t> number_of_; // by 3 * link + kind, then pair limits; or unknown
};

} // namespace toposeat
