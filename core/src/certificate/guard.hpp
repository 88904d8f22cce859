// What a solver found, against the default placement.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include "certificate/job.hpp"
#include "toposeat/certificate/solve.hpp"

namespace toposeat {

/// The placement to answer with: one that is better than the default by the objective and not
/// predicted slower, or the default itself where there is none; of equally good ones a fast one.
/// Says in the answer's notes where that is not simply what was found.
Assignment guarded(const Job &job, const Found &found, MapAnswer &answer);

} // namespace toposeat
