// SPDX-License-Identifier: MIT OR Apache-2.0
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings.hpp"
#include "toposeat/search/cost_search.hpp"

namespace {

using toposeat::Assignment;
using toposeat::CostAnswer;
using toposeat::Deadline;
using toposeat::Matrix;
using toposeat::Qap;
using toposeat::SearchOptions;
using toposeat::SearchStrategy;
using InputMatrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

/// What a search found, and when.
struct SearchRecord {
  CostAnswer answer;
  double seconds = 0;         // of the clock asked for
  double seconds_to_best = 0; // to the end of the tabu walk that found the answer
};

const std::map<std::string, SearchStrategy> strategies{{"auto", SearchStrategy::automatic},
                                                       {"tabu", SearchStrategy::tabu},
                                                       {"iterated", SearchStrategy::iterated},
                                                       {"memetic", SearchStrategy::memetic}};

Matrix finite_matrix(const InputMatrix &array, std::size_t size) {
  if (array.shape(0) != size || array.shape(1) != size)
    throw std::invalid_argument("expected square matrices of one size");
  Matrix matrix(size);
  matrix.values.assign(array.data(), array.data() + array.size());
  for (const double value : matrix.values) {
    if (!std::isfinite(value) || std::abs(value) > 1e100)
      throw std::invalid_argument("expected finite entries, at most 1e100");
  }
  return matrix;
}

Qap qap_of(const InputMatrix &flow, const InputMatrix &distance) {
  const std::size_t size = flow.shape(0);
  return {finite_matrix(flow, size), finite_matrix(distance, size), size,
          std::vector(size, Qap::no_pin)};
}

SearchRecord search_pairwise(const InputMatrix &flow, const InputMatrix &distance,
                             const std::string &strategy, std::uint64_t seed, double budget_s,
                             std::uint64_t moves, double target, bool thread_time) {
  const auto named = strategies.find(strategy);
  if (named == strategies.end())
    throw std::invalid_argument("unknown strategy " + strategy);
  const Qap qap = qap_of(flow, distance);
  const nb::gil_scoped_release release;
  const Deadline::Clock clock = thread_time ? Deadline::Clock::thread_cpu : Deadline::Clock::wall;
  const double begin = Deadline::now(clock);
  SearchRecord record;
  double best = std::numeric_limits<double>::infinity();
  SearchOptions options;
  options.seed = seed;
  options.moves = moves;
  options.target = target;
  options.strategy = named->second;
  options.visit = [&](const Assignment & /*placement*/, double cost) {
    if (!(cost < best))
      return;
    best = cost;
    record.seconds_to_best = Deadline::now(clock) - begin;
  };
  Assignment start(qap.size());
  std::iota(start.begin(), start.end(), 0U);
  record.answer =
      toposeat::search_cost(qap, start, options, Deadline::in(budget_s, nullptr, clock));
  record.seconds = Deadline::now(clock) - begin;
  return record;
}

constexpr const char *search_doc =
    "Searches a permutation p with little sum of flow[i, j] * distance[p[i], p[j]].\n\n"
    "Strategies: auto, tabu, iterated, memetic. Ends after so many moves, at a cost of `target`, "
    "or\nafter `budget_s` seconds: of this thread's CPU time if `thread_time`, else as the clock "
    "on\nthe wall shows.\n\n"
    "Raises:\n    ValueError: if the matrices are not square, of one size and finite.";

} // namespace

void bind_search(nb::module_ &module) {
  using namespace nb::literals;

  nb::class_<SearchRecord>(module, "SearchRecord", "Result of search_pairwise().")
      .def_prop_ro("placement", [](const SearchRecord &each) { return each.answer.placement; })
      .def_prop_ro("cost", [](const SearchRecord &each) { return each.answer.cost; })
      .def_prop_ro("moves", [](const SearchRecord &each) { return each.answer.moves; })
      .def_ro("seconds", &SearchRecord::seconds)
      .def_ro("seconds_to_best", &SearchRecord::seconds_to_best);

  module.def("search_pairwise", &search_pairwise, "flow"_a, "distance"_a, nb::kw_only(),
             "strategy"_a = "auto", "seed"_a = 1, "budget_s"_a = 1.0,
             "moves"_a = std::numeric_limits<std::uint64_t>::max() / 2, "target"_a = -1.0,
             "thread_time"_a = false, search_doc);
}
