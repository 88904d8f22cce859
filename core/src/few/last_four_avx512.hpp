// The kernels of the last four ranks that gain from vectors of 64 bytes.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include "few/last_four.hpp"

namespace toposeat {

/// Replaces those of `kernels` that this processor can do better; the results stay the same. False
/// if there are none.
bool use_avx512(FourKernels &kernels);

} // namespace toposeat
