// Dividing a graph in two parts of given sizes with little weight between them.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "division/coarsening.hpp"
#include "division/fm_refinement.hpp"
#include "division/part_graph.hpp"
#include "toposeat/base/deadline.hpp"
#include "toposeat/base/rng.hpp"

namespace toposeat {

/// Multilevel bisection: merge down to a few dozen vertices, grow several first cuts there, refine
/// the best on the way back. Keeps its buffers from one call to the next.
class Bisector {
public:
  Bisector(std::uint64_t seed, const Deadline &deadline)
      : deadline_(deadline), rng_(seed), coarsener_(rng_), refiner_(deadline) {}

  /// Sides of a graph whose vertices are single ranks; the size of side 0 is within `range`, which
  /// must lie within 0..vertices. At the deadline the cut is left as it is, but not the sizes.
  Sides bisect(const PartGraph &graph, const SizeRange &range);

private:
  Sides divide_coarsest(const PartGraph &graph, const SizeRange &range, const Slack &slack);

  Deadline deadline_;
  Rng rng_;
  Coarsener coarsener_;
  FmRefiner refiner_;
};

} // namespace toposeat
