// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/certificate/solve.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "base/rng.hpp"
#include "certificate/guard.hpp"
#include "certificate/job.hpp"
#include "problem/reduced_machine.hpp"
#include "toposeat/flow/flow.hpp"
#include "toposeat/problem/congestion.hpp"
#include "toposeat/problem/symmetry.hpp"

namespace toposeat {
namespace {

constexpr std::uint32_t largest_uniform = 128; // seats

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
bool pairs_look_equal(const Network &network) {
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

/// Every placement has the same value, for any traffic.
///
/// Of the cost: when all pairs of seats cost the same. Of congestion and flow time: when every
/// exchange of two seats is a symmetry of the network (a crossbar; a full mesh of equal links), so
/// that all permutations are. An answer false may be wrong on more than `largest_uniform` seats.
bool every_placement_is_equal(const ReducedMachine &machine, Objective objective) {
  if (machine.network.devices < 2)
    return true;
  if (objective == Objective::cost)
    return off_diagonal_is_constant(machine.cost) && off_diagonal_is_constant(machine.message_cost);
  return machine.network.devices <= largest_uniform && pairs_look_equal(machine.network) &&
         all_exchanges_are_symmetries(machine.network);
}

/// A random order of the free seats; with restrictions, a random walk of permitted exchanges.
Assignment random_placement(const Job &job) {
  Rng rng(job.request.seed);
  Assignment placement = job.padded(job.home);
  std::vector<std::uint32_t> movable;
  for (std::uint32_t r = 0; r < job.devices(); ++r) {
    if (job.qap.free_rank(r))
      movable.push_back(r);
  }
  const int rounds = job.qap.allowed.empty() ? 1 : 10;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = movable.size(); i > 1; --i) {
      const std::uint32_t r = movable[i - 1];
      const std::uint32_t s = movable[rng.below(i)];
      if (job.qap.may_swap(placement, r, s))
        std::swap(placement[r], placement[s]);
    }
  }
  return job.unpadded(placement);
}

Found candidate(const Job &job) {
  const Objective objective = job.request.objective;
  switch (job.request.method) {
  case Method::keep_default:
    return {job.home, quick_bound(job, objective), "default"};
  case Method::random:
    return {random_placement(job), quick_bound(job, objective), "random"};
  case Method::automatic:
  case Method::exact:
  case Method::search:
    break;
  }
  if (objective == Objective::cost)
    return solve_cost(job);
  return objective == Objective::congestion ? solve_congestion(job) : solve_time(job);
}

MapAnswer uniform_answer(const MapRequest &request, const ReducedMachine &machine) {
  MapAnswer answer;
  const Assignment &home = machine.home;
  answer.device_of_rank = machine.original(home, request.traffic->ranks);
  if (request.objective == Objective::cost) {
    Qap qap = make_qap(*request.traffic, machine.cost, machine.message_cost);
    Assignment seats(qap.size());
    std::iota(seats.begin(), seats.end(), 0U); // any permutation: all cost the same
    answer.value = qap_cost(qap, seats);
  } else if (request.objective == Objective::congestion) {
    answer.value = congestion(machine.network, *request.traffic, home).max_s;
  } else {
    answer.value = flow_time(machine.network, *request.traffic, home);
  }
  answer.lower_bound = answer.value;
  answer.proved = answer.kept_default = answer.uniform = true;
  answer.solver = "uniform";
  answer.notes.emplace_back("nothing to gain from order: all placements are equally good");
  return answer;
}

/// Of the search: the guard times two placements after it, and a search for time may have begun one
/// more as it ends. At least a quarter of the budget is for searching.
double search_seconds(const MapRequest &request) {
  const double timings = request.objective == Objective::time ? 1 : 2;
  return std::max(0.25 * request.budget_s,
                  request.budget_s - timings * timing_seconds(*request.traffic));
}

} // namespace

MapAnswer solve(const MapRequest &request) {
  const Deadline deadline = Deadline::in(search_seconds(request), request.stop);
  ReducedMachine machine(request);
  if (chooses_placement(request.method) && every_placement_is_equal(machine, request.objective))
    return uniform_answer(request, machine);
  const Job job(request, std::move(machine), deadline);
  MapAnswer answer;
  const Found found = candidate(job);
  const Assignment chosen =
      chooses_placement(request.method) ? guarded(job, found, answer) : found.placement;
  const std::uint32_t ranks = request.traffic->ranks;
  answer.device_of_rank = job.machine.original(chosen, ranks);
  answer.kept_default = answer.device_of_rank == job.machine.original(job.home, ranks);
  answer.value = job.value(request.objective, chosen);
  answer.interrupted = deadline.stopped();
  if (answer.interrupted)
    answer.notes.emplace_back("interrupted: the best placement so far");
  answer.solver = found.solver;
  answer.lower_bound = found.lower_bound;
  if (answer.lower_bound) {
    answer.proved = !less_by_tolerance(*answer.lower_bound, answer.value);
    if (answer.proved)
      answer.lower_bound = answer.value;
  }
  return answer;
}

} // namespace toposeat
