// SPDX-License-Identifier: MIT OR Apache-2.0
#include "flow/phase_walk.hpp"

#include <algorithm>

namespace toposeat {

FlowTimes run_to_end(PhaseWalk &walk, const std::vector<double> &finish_s,
                     std::vector<std::uint32_t> &limit) {
  FlowTimes result;
  limit.assign(finish_s.size(), no_link);
  result.seconds = walk.run(unlimited, nullptr);
  result.finish_s = finish_s;
  const auto last = std::max_element(finish_s.begin(), finish_s.end());
  result.last_flow = static_cast<std::uint32_t>(last - finish_s.begin());
  result.bottleneck = limit[result.last_flow];
  limit.clear();
  return result;
}

} // namespace toposeat
