// SPDX-License-Identifier: MIT OR Apache-2.0
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <stdexcept>
#include <utility>

#include "bindings.hpp"
#include "toposeat/flow/flow.hpp"
#include "toposeat/flow/placement_model.hpp"
#include "toposeat/flow/schedule.hpp"
#include "toposeat/problem/congestion.hpp"
#include "toposeat/problem/network.hpp"

namespace {

using toposeat::Assignment;
using toposeat::Congestion;
using toposeat::FlowTimes;
using toposeat::Network;
using toposeat::RankTraffic;
using DoubleArray = nb::ndarray<nb::numpy, double, nb::ndim<1>>;

DoubleArray bytes_of(const Congestion &congestion, double toposeat::LinkBytes::*direction) {
  std::vector<double> values;
  values.reserve(congestion.bytes.size());
  for (const toposeat::LinkBytes &each : congestion.bytes)
    values.push_back(each.*direction);
  return as_array(std::move(values));
}

std::optional<std::uint32_t> unless_none(std::uint32_t number) {
  return number == toposeat::no_link ? std::nullopt : std::optional(number);
}

using Costs = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Assignments = nb::ndarray<const std::uint32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

/// Calls `value` with each row of `assignments`, checked, without the interpreter's lock.
template <typename Value>
DoubleArray for_each(const Network &network, const RankTraffic &traffic,
                     const Assignments &assignments, Value value) {
  std::vector<double> results(assignments.shape(0));
  {
    const nb::gil_scoped_release release;
    Assignment device_of_rank(assignments.shape(1));
    for (std::size_t i = 0; i < results.size(); ++i) {
      const std::uint32_t *row = assignments.data() + i * assignments.shape(1);
      device_of_rank.assign(row, row + assignments.shape(1));
      toposeat::check_assignment(network, traffic.ranks, device_of_rank);
      results[i] = value(device_of_rank);
    }
  }
  return as_array(std::move(results));
}

DoubleArray flow_time_each(const Network &network, const RankTraffic &traffic,
                           const Assignments &assignments) {
  toposeat::FlowModel model(network, traffic);
  return for_each(network, traffic, assignments,
                  [&](const Assignment &each) { return model.seconds(each); });
}

DoubleArray max_congestion_each(const Network &network, const RankTraffic &traffic,
                                const Assignments &assignments) {
  return for_each(network, traffic, assignments, [&](const Assignment &each) {
    return toposeat::congestion(network, traffic, each).max_s;
  });
}

nb::ndarray<nb::numpy, double, nb::ndim<2>> figures_each(const Network &network,
                                                         const RankTraffic &traffic,
                                                         const Costs &cost,
                                                         const Assignments &assignments) {
  constexpr std::size_t columns = 5;
  toposeat::PlacementModel model(network, traffic, {cost.data(), cost.data() + cost.size()});
  std::vector<double> figures;
  figures.reserve(assignments.shape(0) * columns);
  for_each(network, traffic, assignments, [&](const Assignment &each) {
    const toposeat::PlacementFigures found = model.figures(each);
    for (const double value :
         {found.max_s, found.mean_s, found.hop_bytes, found.cost, found.flow_s})
      figures.push_back(value);
    return found.flow_s;
  });
  return as_table(std::move(figures), columns);
}

constexpr const char *figures_each_doc =
    "All figures of each row of a (placements, ranks) array, as a (placements, 5) array.\n\n"
    "The columns: maximum and mean congestion in seconds, hop-bytes, the sum of bytes x cost (a\n"
    "devices x devices array), and seconds until the last flow finishes.\n\n"
    "Raises:\n"
    "    ValueError: unless each row names a device for each rank, and `cost` has a row and a\n"
    "        column for each device.";

constexpr const char *flow_time_each_doc =
    "flow_time of each row of a (placements, ranks) array.\n\n"
    "Raises:\n"
    "    ValueError: unless each row names a device for each rank.";

constexpr const char *max_congestion_each_doc =
    "Highest congestion of a link for each row of a (placements, ranks) array.\n\n"
    "Raises:\n"
    "    ValueError: unless each row names a device for each rank.";

constexpr const char *congestion_doc =
    "Bytes and congestion of every link under an assignment.\n\n"
    "Raises:\n"
    "    ValueError: unless device_of_rank names a device for each rank.";

constexpr const char *flow_time_doc =
    "Seconds until the last flow of a phase finishes under max-min fair sharing.\n\n"
    "All flows are issued together; each moves bytes after messages x latency of its pair. Rounds\n"
    "are a floor: no rank is done before it has waited for all of its own.\n"
    "core/include/toposeat/flow/flow.hpp states the model.\n\n"
    "Raises:\n"
    "    ValueError: unless device_of_rank names a device for each rank.";

std::pair<double, DoubleArray> schedule_times(const Network &network,
                                              const std::vector<const RankTraffic *> &phases,
                                              std::uint32_t repeats,
                                              const Assignment &device_of_rank, bool barrier) {
  toposeat::Schedule schedule;
  schedule.repeats = repeats;
  for (const RankTraffic *phase : phases)
    schedule.phases.push_back(*phase);
  toposeat::ScheduleTimes times;
  {
    const nb::gil_scoped_release release;
    times = toposeat::schedule_times(network, schedule, device_of_rank, barrier);
  }
  return {times.seconds, as_array(std::move(times.phase_end_s))};
}

constexpr const char *schedule_times_doc =
    "Seconds until the last flow of a schedule finishes, and until each phase of each repeat "
    "does.\n\n"
    "With `barrier`, a phase begins when the one before it is done; without, a rank goes on when "
    "all\n"
    "its own flows are. core/include/toposeat/flow/schedule.hpp states the model.\n\n"
    "Raises:\n"
    "    ValueError: unless device_of_rank names a device for each rank, phases have the same "
    "ranks,\n"
    "        and there are at most 2^22 flows over all repeats.";

constexpr const char *flow_times_doc =
    "As flow_time, with start and finish of each flow and what limited the last one.\n\n"
    "Raises:\n"
    "    ValueError: unless device_of_rank names a device for each rank.";

} // namespace

void bind_evaluate(nb::module_ &module) {
  using namespace nb::literals;
  using Release = nb::call_guard<nb::gil_scoped_release>;

  // Arrays are made anew by each access and own their data: the default policy for properties
  // (owned by the object) does not apply.
  constexpr auto fresh = nb::rv_policy::automatic;

  nb::class_<Congestion>(module, "Congestion",
                         "Result of congestion(); arrays have one entry per link.")
      .def_ro("max_s", &Congestion::max_s)
      .def_ro("mean_s", &Congestion::mean_s, "Over the links that some route uses.")
      .def_ro("hop_bytes", &Congestion::hop_bytes)
      .def_prop_ro(
          "seconds", [](const Congestion &self) { return as_array(std::vector(self.seconds)); },
          fresh)
      .def_prop_ro(
          "forward_bytes",
          [](const Congestion &self) { return bytes_of(self, &toposeat::LinkBytes::forward); },
          fresh)
      .def_prop_ro(
          "backward_bytes",
          [](const Congestion &self) { return bytes_of(self, &toposeat::LinkBytes::backward); },
          fresh);

  nb::class_<FlowTimes>(module, "FlowTimes", "Result of flow_times().")
      .def_ro("seconds", &FlowTimes::seconds)
      .def_prop_ro(
          "finish_s", [](const FlowTimes &self) { return as_array(std::vector(self.finish_s)); },
          fresh, "One per flow, in the order of the traffic.")
      .def_prop_ro(
          "start_s", [](const FlowTimes &self) { return as_array(std::vector(self.start_s)); },
          fresh, "When each flow has paid its latency, and begins to move bytes.")
      .def_prop_ro(
          "waiting_rank", [](const FlowTimes &self) { return unless_none(self.waiting_rank); },
          "The rank whose rounds take longer than all flows; None if none do.")
      .def_prop_ro(
          "last_flow", [](const FlowTimes &self) { return unless_none(self.last_flow); },
          "The first flow that finishes last; None without flows.")
      .def_prop_ro(
          "bottleneck", [](const FlowTimes &self) { return unless_none(self.bottleneck); },
          "Link that limited it at its end; None if its pair's cap or latency did.");

  module.def("congestion", &toposeat::congestion, "network"_a, "traffic"_a, "device_of_rank"_a,
             congestion_doc, Release());
  module.def("flow_time", &toposeat::flow_time, "network"_a, "traffic"_a, "device_of_rank"_a,
             flow_time_doc, Release());
  module.def("flow_time_each", &flow_time_each, "network"_a, "traffic"_a, "placements"_a,
             flow_time_each_doc);
  module.def("max_congestion_each", &max_congestion_each, "network"_a, "traffic"_a, "placements"_a,
             max_congestion_each_doc);
  module.def("figures_each", &figures_each, "network"_a, "traffic"_a, "cost"_a, "assignments"_a,
             figures_each_doc);
  module.def("schedule_times", &schedule_times, "network"_a, "phases"_a, "repeats"_a,
             "device_of_rank"_a, "barrier"_a, schedule_times_doc);
  module.def("flow_times", &toposeat::flow_times, "network"_a, "traffic"_a, "device_of_rank"_a,
             flow_times_doc, Release());
}
