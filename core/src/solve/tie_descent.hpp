// The best of equally fast placements by what comes after the time, on few devices.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include "solve/job.hpp"

namespace toposeat {

/// Changes the places of two ranks, or of three or four where no two are left, as long as that
/// takes no longer than `placement` and is better by what comes after the time (see `Score`).
Assignment best_of_equals(const Job &job, const Assignment &placement);

} // namespace toposeat
