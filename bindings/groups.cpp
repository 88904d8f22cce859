// SPDX-License-Identifier: MIT OR Apache-2.0
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "toposeat/groups/ring_rate.hpp"

namespace {

using toposeat::GroupWiring;
using toposeat::RingRate;
using toposeat::RingSearch;

RingRate rate_of(std::uint32_t members, const InputVector<double> &capacity,
                 const InputVector<std::uint32_t> &route_begin,
                 const InputVector<std::uint32_t> &uses, const InputVector<double> &flow_cap,
                 const InputVector<std::uint8_t> &path_class, bool switched,
                 const InputVector<double> &levels, double stop_below, std::uint32_t most_rings,
                 std::int64_t steps) {
  const GroupWiring wiring{members,         as_vector(capacity), as_vector(route_begin),
                           as_vector(uses), as_vector(flow_cap), as_vector(path_class),
                           switched};
  RingSearch search;
  search.levels = as_vector(levels);
  search.stop_below = stop_below;
  search.most_rings = most_rings;
  search.steps = steps;
  const nb::gil_scoped_release release;
  return toposeat::ring_rate(wiring, search);
}

} // namespace

void bind_groups(nb::module_ &module) {
  nb::class_<RingRate>(module, "RingRate", "The rate of a group on a set of devices")
      .def_ro("bytes_per_s", &RingRate::bytes_per_s)
      .def_ro("cut_bytes_per_s", &RingRate::cut_bytes_per_s)
      .def_ro("rings", &RingRate::rings);
  using nb::literals::operator""_a;
  module.def("ring_rate", rate_of, "members"_a, nb::kw_only(), "capacity"_a, "route_begin"_a,
             "uses"_a, "flow_cap"_a, "path_class"_a, "switched"_a, "levels"_a, "stop_below"_a,
             "most_rings"_a, "steps"_a, "Search rings over the members of a group");
}
