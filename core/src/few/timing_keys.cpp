// SPDX-License-Identifier: MIT OR Apache-2.0
#include "few/timing_keys.hpp"

#include <algorithm>
#include <bit>

#include "toposeat/base/mixed_bits.hpp"

namespace toposeat {
namespace {

/// Of a key and two numbers, in this order.
TimingKey joined(const TimingKey &key, double number, double other) {
  const auto a = std::bit_cast<std::uint64_t>(number);
  const auto b = std::bit_cast<std::uint64_t>(other);
  return {mixed_bits(mixed_bits(key.first + a) + b), mixed_bits(mixed_bits(key.second ^ a) ^ b)};
}

void add(TimingKey &sum, const TimingKey &key) {
  sum.first += key.first;
  sum.second += key.second;
}

} // namespace

TimingKeys::TimingKeys(const LoneFlows &flows) : flows_(flows), uses_(flows.capacities().size()) {
  std::uint64_t word = 0;
  for (std::size_t f = 0; f < flows.flows().size(); ++f) {
    const std::uint64_t first = mixed_bits(++word);
    flow_keys_.push_back({first, mixed_bits(++word)});
  }
}

TimingKey TimingKeys::of(const Assignment &placement) {
  std::fill(uses_.begin(), uses_.end(), Use{});
  TimingKey key;
  for (std::size_t f = 0; f < flows_.flows().size(); ++f) {
    const Flow &flow = flows_.flows()[f];
    const std::uint32_t from = placement[flow.source];
    const std::uint32_t to = placement[flow.target];
    const LoneFlows::Alone &alone = flows_.alone(f, from, to);
    add(key, joined(flow_keys_[f], alone.start, alone.rate));
    if (!(flow.bytes > 0))
      continue;
    for (const std::uint32_t number : flows_.constraints(from, to)) {
      add(uses_[number].users, flow_keys_[f]);
      uses_[number].demand += alone.rate;
    }
  }
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    // What its flows cannot fill limits none of them.
    if (uses_[i].demand > flows_.capacities()[i])
      add(key, joined(uses_[i].users, flows_.capacities()[i], 0));
  }
  return key;
}

} // namespace toposeat
