// SPDX-License-Identifier: MIT OR Apache-2.0
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>

#include "bindings.hpp"
#include "toposeat/scotch.hpp"
#include "toposeat/solve.hpp"

namespace {

using toposeat::MapAnswer;
using toposeat::MapRequest;
using toposeat::Matrix;
using toposeat::Network;
using toposeat::Objective;
using toposeat::Qap;
using toposeat::RankTraffic;
using toposeat::ScotchAnswer;
using InputMatrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

const std::map<std::string, Objective> objectives{
    {"cost", Objective::cost}, {"congestion", Objective::congestion}, {"time", Objective::time}};
const std::map<std::string, toposeat::Method> methods{
    {"auto", toposeat::Method::automatic},       {"exact", toposeat::Method::exact},
    {"search", toposeat::Method::search},        {"scotch", toposeat::Method::scotch},
    {"default", toposeat::Method::keep_default}, {"random", toposeat::Method::random}};

template <class Value>
Value named(const std::map<std::string, Value> &values, const std::string &name) {
  const auto found = values.find(name);
  if (found == values.end())
    throw std::invalid_argument("unknown name " + name);
  return found->second;
}

Matrix as_matrix(const InputMatrix &array) {
  if (array.shape(0) != array.shape(1))
    throw std::invalid_argument("expected a square cost matrix");
  Matrix matrix(array.shape(0));
  matrix.values.assign(array.data(), array.data() + array.size());
  return matrix;
}

/// Pairs (rank, device) to one entry per rank.
std::vector<std::uint32_t>
as_pins(std::uint32_t ranks, const std::vector<std::tuple<std::uint32_t, std::uint32_t>> &pairs) {
  std::vector<std::uint32_t> pins(pairs.empty() ? 0 : ranks, Qap::no_pin);
  for (const auto &[rank, device] : pairs) {
    if (rank >= ranks)
      throw std::invalid_argument("rank " + std::to_string(rank) + " does not exist");
    pins[rank] = device;
  }
  return pins;
}

MapAnswer map_ranks(const Network &network, const RankTraffic &traffic, const InputMatrix &cost,
                    const std::string &objective, const std::string &solver, double budget_s,
                    std::uint64_t seed, const std::vector<std::uint32_t> &devices,
                    const std::vector<std::tuple<std::uint32_t, std::uint32_t>> &pins) {
  const MapRequest request{network,
                           traffic,
                           as_matrix(cost),
                           devices,
                           as_pins(traffic.ranks, pins),
                           named(objectives, objective),
                           named(methods, solver),
                           budget_s,
                           seed};
  const nb::gil_scoped_release release;
  return toposeat::solve(request);
}

std::vector<std::uint32_t>
default_ranks(const Network &network, const RankTraffic &traffic,
              const std::vector<std::uint32_t> &devices,
              const std::vector<std::tuple<std::uint32_t, std::uint32_t>> &pins) {
  const MapRequest request{network, traffic, Matrix(), devices, as_pins(traffic.ranks, pins)};
  return toposeat::default_assignment(request);
}

std::tuple<std::vector<std::int64_t>, std::vector<std::uint32_t>>
scotch_raw(const RankTraffic &traffic, const InputMatrix &cost, std::uint64_t seed) {
  const Qap qap = toposeat::make_qap(traffic, as_matrix(cost));
  ScotchAnswer answer;
  {
    const nb::gil_scoped_release release;
    answer = toposeat::scotch_map(qap, seed);
  }
  answer.raw.resize(traffic.ranks);
  answer.placement.resize(traffic.ranks);
  return {answer.raw, answer.placement};
}

constexpr const char *map_doc =
    "Chooses a device for every rank.\n\n"
    "`cost` is devices x devices, the relative cost of a byte between two devices. `devices` "
    "lists\n"
    "those that may be used, in default order (none: all); `pins` holds (rank, device) pairs.\n"
    "Objectives: cost, congestion, time. Solvers: auto, exact, search, scotch, default, random.\n\n"
    "Raises:\n"
    "    ValueError: if the ranks do not fit, or devices and pins contradict each other.\n"
    "    RuntimeError: if Scotch was asked for and is missing or fails.";

} // namespace

void bind_mapping(nb::module_ &module) {
  using namespace nb::literals;

  nb::class_<MapAnswer>(module, "MapAnswer", "Result of map_ranks().")
      .def_ro("device_of_rank", &MapAnswer::device_of_rank)
      .def_ro("value", &MapAnswer::value, "Of the objective asked for.")
      .def_ro("lower_bound", &MapAnswer::lower_bound, "No placement has less; None if not known.")
      .def_ro("proved", &MapAnswer::proved, "Value and lower bound agree within 1e-9.")
      .def_ro("kept_default", &MapAnswer::kept_default)
      .def_ro("solver", &MapAnswer::solver)
      .def_ro("notes", &MapAnswer::notes);

  module.def("map_ranks", &map_ranks, "network"_a, "traffic"_a, "cost"_a, nb::kw_only(),
             "objective"_a, "solver"_a, "budget_s"_a, "seed"_a, "devices"_a, "pins"_a, map_doc);
  module.def("default_ranks", &default_ranks, "network"_a, "traffic"_a, nb::kw_only(), "devices"_a,
             "pins"_a, "Rank i on the i-th allowed device that no other rank is pinned to.");
  module.def("scotch_available", &toposeat::scotch_available, "Whether libscotch can be loaded.");
  module.def("scotch_raw", &scotch_raw, "traffic"_a, "cost"_a, "seed"_a,
             "Scotch's own answer, one-to-one or not, and the repaired one, for comparisons.\n\n"
             "Raises:\n    RuntimeError: if the library is missing or fails.");
}
