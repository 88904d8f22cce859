// Numbers whose bits all depend on all bits of others.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>

namespace toposeat {

/// The last steps of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): close numbers become far ones,
/// and different ones stay different.
inline std::uint64_t mixed_bits(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111ebU;
  return bits ^ (bits >> 31U);
}

} // namespace toposeat
