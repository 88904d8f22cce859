// SPDX-License-Identifier: MIT OR Apache-2.0
#include "exact/limit_kernel.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/wide.hpp"

namespace toposeat {
namespace {

constexpr std::uint32_t lowest(std::uint32_t bits) { return bits & (~bits + 1); }

/// Lowers `least` to a line where that is less.
TOPOSEAT_INLINE void lower(std::int32_t *__restrict least, const std::int32_t *__restrict line,
                           std::size_t stride) {
  for (std::size_t t = 0; t < stride; ++t)
    least[t] = line[t] < least[t] ? line[t] : least[t];
}

} // namespace

TOPOSEAT_WIDE std::uint32_t narrow_lines(const LimitStep &step, std::uint32_t devices,
                                         std::int32_t *next, std::int32_t *least) {
  const std::int32_t *const room = step.room;
  const std::int32_t received = step.received;
  const std::int32_t sent = step.sent;
  const std::size_t stride = step.stride;
  std::fill_n(least, stride, std::numeric_limits<std::int32_t>::max());
  std::uint32_t fits = devices;
  for (; devices != 0; devices &= devices - 1) {
    const std::size_t line = stride * static_cast<std::size_t>(std::countr_zero(devices));
    const std::int32_t *const here = step.here + line;
    const std::int32_t *const leaving = step.leaving + line;
    const std::int32_t *const entering = step.entering + line;
    std::int32_t *const __restrict to = next + line;
    std::int32_t over = 0;
    for (std::size_t t = 0; t < stride; ++t) {
      const std::int32_t now = here[t] + received * leaving[t] + sent * entering[t];
      to[t] = now;
      over |= now > room[t] ? 1 : 0;
    }
    if (over != 0)
      fits &= ~lowest(devices);
    else
      lower(least, to, stride);
  }
  return fits;
}

TOPOSEAT_WIDE std::uint32_t lines_with_room(const std::int32_t *lines, std::uint32_t devices,
                                            const std::int32_t *room, std::size_t stride,
                                            std::int32_t *least) {
  std::fill_n(least, stride, std::numeric_limits<std::int32_t>::max());
  std::uint32_t fits = devices;
  for (; devices != 0; devices &= devices - 1) {
    const std::int32_t *line = lines + stride * static_cast<std::size_t>(std::countr_zero(devices));
    std::int32_t over = 0;
    for (std::size_t t = 0; t < stride; ++t)
      over |= line[t] > room[t] ? 1 : 0;
    if (over != 0)
      fits &= ~lowest(devices);
    else
      lower(least, line, stride);
  }
  return fits;
}

TOPOSEAT_WIDE bool take_room(std::int32_t *__restrict room, const std::int32_t *__restrict line,
                             std::int32_t sign, std::size_t stride) {
  std::int32_t over = 0;
  for (std::size_t t = 0; t < stride; ++t) {
    room[t] -= sign * line[t];
    over |= room[t] < 0 ? 1 : 0;
  }
  return over == 0;
}

} // namespace toposeat
