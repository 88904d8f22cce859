// SPDX-License-Identifier: MIT OR Apache-2.0
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>

#include "bindings.hpp"
#include "interrupts.hpp"
#include "toposeat/certificate/solve.hpp"
#include "toposeat/problem/symmetry.hpp"

namespace {

using toposeat::MapAnswer;
using toposeat::MapRequest;
using toposeat::Matrix;
using toposeat::Network;
using toposeat::RankTraffic;
using toposeat::Symmetry;
using InputMatrix = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

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
  std::vector<std::uint32_t> pins(pairs.empty() ? 0 : ranks, toposeat::no_pin);
  for (const auto &[rank, device] : pairs) {
    if (rank >= ranks)
      throw std::invalid_argument("rank " + std::to_string(rank) + " does not exist");
    pins[rank] = device;
  }
  return pins;
}

using Numbers = std::vector<std::uint32_t>;
using Pins = std::vector<std::tuple<std::uint32_t, std::uint32_t>>;

/// The request that Python describes; it shares Python's `network` and `traffic`.
void make_request(MapRequest *request, std::shared_ptr<const Network> network,
                  std::shared_ptr<const RankTraffic> traffic, const InputMatrix &cost,
                  const std::optional<InputMatrix> &message_cost, const Numbers &devices,
                  const Pins &pins, const Numbers &slots, const std::vector<Numbers> &allowed,
                  const Numbers &hosts, const std::string &objective, const std::string &solver,
                  double budget_s, std::uint64_t seed) {
  const std::uint32_t ranks = traffic->ranks;
  new (request) MapRequest{.network = std::move(network),
                           .traffic = std::move(traffic),
                           .cost = as_matrix(cost),
                           .devices = devices,
                           .pinned = as_pins(ranks, pins),
                           .objective = named(objectives, objective),
                           .method = named(methods, solver),
                           .budget_s = budget_s,
                           .seed = seed,
                           .message_cost = message_cost ? as_matrix(*message_cost) : Matrix(),
                           .slots = slots,
                           .allowed = allowed,
                           .host_of_device = hosts,
                           .stop = &Interrupts::asked};
}

MapAnswer map_ranks(const MapRequest &request, bool interruptible) {
  const nb::gil_scoped_release release;
  const Interrupts interrupts(interruptible);
  return toposeat::solve(request);
}

std::optional<std::tuple<Numbers, Numbers>> seating_conflict(const MapRequest &request) {
  const auto conflict = toposeat::seating_conflict(request);
  if (!conflict)
    return std::nullopt;
  return std::tuple(conflict->ranks, conflict->devices);
}

void make_symmetry(Symmetry *self, const InputMatrix &colours, const Network *network) {
  const Matrix matrix = as_matrix(colours);
  if (network != nullptr && network->devices != matrix.n)
    throw std::invalid_argument("expected as many rows as devices");
  if (network != nullptr)
    new (self) Symmetry(*network, matrix);
  else
    new (self) Symmetry(matrix);
}

std::vector<std::uint32_t> representatives(const Symmetry &symmetry,
                                           const std::vector<std::uint32_t> &fixed,
                                           const std::vector<std::uint32_t> &candidates) {
  return symmetry.representatives(fixed, candidates);
}

constexpr const char *request_doc =
    "What is asked of a mapper; immutable.\n\n"
    "`cost` is devices x devices, what a byte between two devices costs, with the cost of a copy\n"
    "within a device on the diagonal; `message_cost` the same for a message, or None. `devices` "
    "lists\n"
    "those that may be used, in default order (none: all), `slots` how many ranks each takes "
    "(none: one);\n"
    "`pins` holds (rank, device) pairs, `allowed` for each rank its devices (an empty list: all), "
    "`hosts`\n"
    "the number of the host of every device (none: one host).\n"
    "Objectives: cost, congestion, time. Solvers: auto, exact, search, default, random.\n\n"
    "Raises:\n"
    "    ValueError: on an unknown name, a rank that does not exist, or a cost that is not square.";

constexpr const char *map_doc =
    "Chooses a device for every rank.\n\n"
    "If `interruptible` (main thread only), the first SIGINT ends the search: the best placement\n"
    "so far is returned.\n\n"
    "Raises:\n"
    "    ValueError: if the ranks do not fit, or devices and pins contradict each other.";

constexpr const char *default_doc =
    "Where ranks go without a mapper: host by host, within a host round the devices.";

constexpr const char *conflict_doc =
    "Ranks that cannot all be seated and the devices they may use; None if all ranks can.";

} // namespace

void bind_mapping(nb::module_ &module) {
  using namespace nb::literals;

  nb::class_<MapAnswer>(module, "MapAnswer", "Result of map_ranks().")
      .def_ro("device_of_rank", &MapAnswer::device_of_rank)
      .def_ro("value", &MapAnswer::value, "Of the objective asked for.")
      .def_ro("lower_bound", &MapAnswer::lower_bound, "No placement has less; None if not known.")
      .def_ro("proved", &MapAnswer::proved, "Value and lower bound agree within 1e-9.")
      .def_ro("kept_default", &MapAnswer::kept_default)
      .def_ro("uniform", &MapAnswer::uniform, "All placements are equally good.")
      .def_ro("interrupted", &MapAnswer::interrupted, "The search was stopped by SIGINT.")
      .def_ro("solver", &MapAnswer::solver)
      .def_ro("notes", &MapAnswer::notes);

  nb::class_<MapRequest>(module, "MapRequest", request_doc)
      .def("__init__", &make_request, "network"_a, "traffic"_a, "cost"_a, nb::kw_only(),
           "message_cost"_a.none() = nb::none(), "devices"_a = Numbers(), "pins"_a = Pins(),
           "slots"_a = Numbers(), "allowed"_a = std::vector<Numbers>(), "hosts"_a = Numbers(),
           "objective"_a = "time", "solver"_a = "auto", "budget_s"_a = 1.0, "seed"_a = 1);

  nb::class_<Symmetry>(module, "Symmetry",
                       "Permutations that keep a square table and, with it, a network.")
      .def("__init__", &make_symmetry, "colours"_a, "network"_a.none() = nb::none())
      .def("representatives", &representatives, "fixed"_a, "candidates"_a,
           "Candidates, in order, but those that a symmetry which fixes `fixed` maps an earlier "
           "to.");

  module.def("map_ranks", &map_ranks, "request"_a, nb::kw_only(), "interruptible"_a = false,
             map_doc);
  module.def("default_ranks", &toposeat::default_assignment, "request"_a, default_doc);
  module.def("seating_conflict", &seating_conflict, "request"_a, conflict_doc);
}
