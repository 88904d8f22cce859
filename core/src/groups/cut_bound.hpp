// What no rings over the members of a group exceed.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "toposeat/groups/ring_rate.hpp"

namespace toposeat::groups {

inline constexpr double tolerance = 1e-9; // of rates, as a share

/// Every cycle crosses every cut once or more in each direction: what crosses is bounded by the
/// narrowest resources of the routes, and by resources that together all routes meet. One that
/// serves both directions counts half for each. Rings of one rate have only whole multiples of it
/// on a resource.
class CutBound {
public:
  explicit CutBound(const GroupWiring &wiring);

  /// U(S), of rings of any rate.
  double least();

  /// What rings of this rate over paths of at most this class have together.
  double least(double rate, std::uint8_t farthest);

private:
  struct Crossing {
    std::uint32_t from, to;
    std::uint32_t first, last, narrowest; ///< resources of the route
    std::uint8_t path_class;
  };

  struct Cover {
    std::vector<std::uint32_t> resources;
    double share; ///< of their sum: what passes the cut one way
  };

  void cover_cuts();
  double least_counted(std::uint8_t farthest);
  double across(const std::vector<bool> &side, std::uint8_t farthest);
  double at_member(std::uint32_t member, std::uint8_t farthest, bool leaves);
  void begin();
  void add(std::uint32_t resource);

  const GroupWiring &wiring_;
  std::vector<double> counted_;     // of each resource: its capacity, or whole multiples of a rate
  std::vector<std::uint32_t> last_; // of each resource: the sum that it counted in last
  std::vector<Crossing> routes_;
  std::vector<Cover> covers_; ///< of cuts
  std::uint32_t mark_ = 0;
  double sum_ = 0;
};

} // namespace toposeat::groups
