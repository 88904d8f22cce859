// SPDX-License-Identifier: MIT OR Apache-2.0
#include "few/own_links.hpp"

#include <cstdint>
#include <vector>

namespace toposeat {
namespace {

/// Bits of the ordered pairs, from * small_width + to, whose routes use a link.
std::vector<std::uint64_t> users_of_links(const Network &network) {
  std::vector<std::uint64_t> users(network.links.size(), 0);
  for (std::uint32_t a = 0; a < network.devices; ++a) {
    for (std::uint32_t b = 0; b < network.devices; ++b) {
      for (const LinkUse &use : network.route(a, b))
        users[use.link] |= std::uint64_t{1} << (a * small_width + b);
    }
  }
  return users;
}

/// The own link of two devices, as the first sees it.
const LinkUse *own_link(const Network &network, const std::vector<std::uint64_t> &users,
                        std::uint32_t a, std::uint32_t b) {
  const auto there = network.route(a, b);
  const auto back = network.route(b, a);
  if (there.size() != 1 || back.size() != 1 || there.front().link != back.front().link ||
      there.front().reverse == back.front().reverse)
    return nullptr;
  const std::uint64_t pairs =
      std::uint64_t{1} << (a * small_width + b) | std::uint64_t{1} << (b * small_width + a);
  return users[there.front().link] == pairs ? there.data() : nullptr;
}

} // namespace

OwnLinks::OwnLinks(const Network &network) : others(network) {
  const std::vector<std::uint64_t> users = users_of_links(network);
  others.route_uses.clear();
  others.route_begin.assign(1, 0);
  for (std::uint32_t a = 0; a < network.devices; ++a) {
    for (std::uint32_t b = 0; b < network.devices; ++b) {
      const LinkUse *own = a == b ? nullptr : own_link(network, users, a, b);
      if (own != nullptr) {
        const LinkCapacity &link = network.links[own->link];
        paces[a].leaving[b] = 1 / (own->reverse ? link.backward : link.forward);
        paces[a].entering[b] = 1 / (own->reverse ? link.forward : link.backward);
        paces[a].both[b] = 1 / link.combined;
      } else {
        const auto route = network.route(a, b);
        others.route_uses.insert(others.route_uses.end(), route.begin(), route.end());
      }
      others.route_begin.push_back(static_cast<std::uint32_t>(others.route_uses.size()));
    }
  }
}

} // namespace toposeat
