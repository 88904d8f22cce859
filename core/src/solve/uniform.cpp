// SPDX-License-Identifier: MIT OR Apache-2.0
#include "solve/uniform.hpp"

#include <numeric>
#include <utility>

#include "toposeat/problem/symmetry.hpp"

namespace toposeat {
namespace {

bool off_diagonal_is_constant(const Matrix &matrix) {
  for (std::size_t i = 0; i < matrix.n; ++i) {
    for (std::size_t j = 0; j < matrix.n; ++j) {
      if (i != j && matrix(i, j) != matrix(0, 1))
        return false;
    }
  }
  return true;
}

/// Two seats each change places with the first one: together these make all permutations.
bool all_exchanges_are_symmetries(const Network &network) {
  const Symmetry symmetry(network);
  std::vector<std::uint32_t> image(network.devices);
  std::iota(image.begin(), image.end(), 0U);
  for (std::uint32_t seat = 1; seat < network.devices; ++seat) {
    std::swap(image[0], image[seat]);
    if (!symmetry.holds(image))
      return false;
    std::swap(image[0], image[seat]);
  }
  return true;
}

/// Quick to refuse: what most machines differ in.
bool pairs_look_alike(const Network &network) {
  const std::uint32_t n = network.devices;
  for (std::uint32_t a = 0; a < n; ++a) {
    for (std::uint32_t b = 0; b < n; ++b) {
      const std::size_t pair = a * std::size_t{n} + b;
      if (a != b &&
          (network.cap[pair] != network.cap[1] || network.latency[pair] != network.latency[1] ||
           network.curve(pair) != network.curve(1) ||
           network.route(a, b).size() != network.route(0, 1).size()))
        return false;
    }
  }
  return true;
}

} // namespace

bool every_placement_is_equal(const ReducedMachine &machine, Objective objective) {
  if (machine.network.devices < 2)
    return true;
  if (objective == Objective::cost)
    return off_diagonal_is_constant(machine.cost) && off_diagonal_is_constant(machine.message_cost);
  return machine.network.devices <= largest_uniform && pairs_look_alike(machine.network) &&
         all_exchanges_are_symmetries(machine.network);
}

} // namespace toposeat
