// The innermost loops of `LimitSearch`: what ranks that are not placed yet would add to each sum.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace toposeat {

inline constexpr std::size_t limit_lanes = 16; // sums are padded to a multiple of it

/// Whole numbers where vectors begin.
class WholeLines {
public:
  explicit WholeLines(std::size_t count = 0) : blocks_((count + limit_lanes - 1) / limit_lanes) {}

  [[nodiscard]] std::int32_t *data() { return blocks_.data()->lanes; }
  [[nodiscard]] const std::int32_t *data() const { return blocks_.data()->lanes; }

private:
  struct alignas(limit_lanes * sizeof(std::int32_t)) Block {
    std::int32_t lanes[limit_lanes] = {};
  };
  std::vector<Block> blocks_;
};

/// What a rank is about to exchange with one that has just been placed. Lines have one number per
/// sum; those of different devices are `stride` apart, a multiple of `limit_lanes`.
struct LimitStep {
  const std::int32_t *here;     // [device][sum]: what the rank adds there by those placed before
  const std::int32_t *leaving;  // [device][sum]: uses by a unit from the device placed last to it
  const std::int32_t *entering; // the same for a unit from there to the device placed last
  std::int32_t received;        // units, from the rank placed last
  std::int32_t sent;            // to it
  const std::int32_t *room;     // [sum]: what is left of the limits
  std::size_t stride;
};

/// Fills `next` (as `here`) for these devices (bits), and `least` with the least of its lines;
/// returns the devices on which the rank finds room. Other devices do not count in `least`.
std::uint32_t narrow_lines(const LimitStep &step, std::uint32_t devices, std::int32_t *next,
                           std::int32_t *least);

/// The same where nothing is exchanged: lines stay as they are.
std::uint32_t lines_with_room(const std::int32_t *lines, std::uint32_t devices,
                              const std::int32_t *room, std::size_t stride, std::int32_t *least);

/// room -= sign * line. False if anything is below 0 afterwards.
bool take_room(std::int32_t *room, const std::int32_t *line, std::int32_t sign, std::size_t stride);

} // namespace toposeat
