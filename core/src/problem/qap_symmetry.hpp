// Symmetries of both sides of a quadratic assignment problem, restrictions included.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include "toposeat/problem/qap.hpp"
#include "toposeat/problem/symmetry.hpp"

namespace toposeat {

/// Matrix for `Symmetry`: device permutations that keep it keep all distances, of both terms, and
/// the sets of ranks that are allowed on each device. Pins are not looked at.
[[nodiscard]] Matrix machine_colours(const Qap &qap);

/// The same for permutations of ranks: flows of both terms and allowed devices.
[[nodiscard]] Matrix pattern_colours(const Qap &qap);

} // namespace toposeat
