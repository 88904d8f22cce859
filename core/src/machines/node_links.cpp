// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/machines/node_links.hpp"

namespace toposeat {

std::string NodeLinks::name(std::uint32_t link) const {
  const std::uint32_t within = (link - first) / 2;
  const std::string unit =
      within < slots ? "slot " + std::to_string(within) : "node " + std::to_string(within - slots);
  return unit + ((link - first) % 2 == 0 ? " out" : " in");
}

} // namespace toposeat
