// SPDX-License-Identifier: MIT OR Apache-2.0
#include "flow/column_shares.hpp"

#include "base/least_of.hpp"
#include "base/wide.hpp"

namespace toposeat {
namespace {

TOPOSEAT_INLINE double shares_of(const Room *__restrict rooms, std::size_t columns,
                                 double *__restrict shares) {
  for (std::size_t c = 0; c < columns; ++c)
    shares[c] = share_of(rooms[c]);
  return least_of({shares, columns});
}

double shares_plain(const Room *rooms, std::size_t columns, double *shares) {
  return shares_of(rooms, columns, shares);
}

#ifdef TOPOSEAT_WIDER
__attribute__((target("avx2"))) double shares_avx2(const Room *rooms, std::size_t columns,
                                                   double *shares) {
  return shares_of(rooms, columns, shares);
}
#endif

ColumnShares chosen() {
#ifdef TOPOSEAT_WIDER
  if (__builtin_cpu_supports("avx2") != 0)
    return shares_avx2;
#endif
  return shares_plain;
}

} // namespace

ColumnShares column_shares() {
  static const ColumnShares best = chosen();
  return best;
}

} // namespace toposeat
