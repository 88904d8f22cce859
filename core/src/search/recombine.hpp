// New placements from old ones, for cost_search.hpp: random ones, and kicks along augmenting paths.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>

#include "base/rng.hpp"
#include "search/swap_problem.hpp"
#include "toposeat/problem/network.hpp"

namespace toposeat {

/// Random exchanges as far as they are allowed, a uniform permutation where everything is; kicks
/// follow where something is not.
void shuffle(const SwapProblem &problem, Assignment &placement, Rng &rng);

/// `length` times, a random rank that is not idle goes to a random device that it may use. The
/// rank displaced takes its place, or if that is not allowed, others make room in a chain.
void kick(const SwapProblem &problem, Assignment &placement, std::size_t length, Rng &rng);

} // namespace toposeat
