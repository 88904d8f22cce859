// When two levels of a max-min filling are one.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

namespace toposeat {

/// Levels this near to each other are one level: it keeps equal shares, which rounding splits, in
/// one round of the filling.
inline constexpr double same_level = 1 + 1e-12;

} // namespace toposeat
