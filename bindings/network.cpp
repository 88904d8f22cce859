// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/problem/network.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>

#include "bindings.hpp"
#include "toposeat/problem/routes.hpp"

namespace {

using toposeat::GraphLink;
using toposeat::LinkPath;
using toposeat::Network;
using toposeat::RankTraffic;
using toposeat::RouteGraph;

template <typename T> using OptionalVector = std::optional<InputVector<T>>;

template <typename T> std::vector<T> vector_or_none(const OptionalVector<T> &array) {
  return array ? as_vector(*array) : std::vector<T>();
}

using PointTuple = std::tuple<double, double, double>;

Network make_network(std::uint32_t devices, const InputVector<double> &forward,
                     const InputVector<double> &backward, const InputVector<double> &combined,
                     const InputVector<std::uint32_t> &route_begin,
                     const InputVector<std::uint32_t> &route_link,
                     const InputVector<bool> &route_reverse, const InputVector<double> &cap,
                     const InputVector<double> &latency, const OptionalVector<double> &pair_limits,
                     const OptionalVector<std::int32_t> &limit_of_pair,
                     const std::vector<std::vector<PointTuple>> &curves,
                     const OptionalVector<std::int32_t> &curve_of_pair) {
  const std::size_t links = forward.shape(0);
  if (backward.shape(0) != links || combined.shape(0) != links) {
    throw std::invalid_argument("forward, backward and combined differ in length");
  }
  if (route_link.shape(0) != route_reverse.shape(0)) {
    throw std::invalid_argument("route_link and route_reverse differ in length");
  }
  Network network;
  network.devices = devices;
  for (std::size_t i = 0; i < links; ++i) {
    network.links.push_back({forward(i), backward(i), combined(i)});
  }
  network.route_begin = as_vector(route_begin);
  for (std::size_t i = 0; i < route_link.shape(0); ++i) {
    network.route_uses.push_back({route_link(i), route_reverse(i)});
  }
  network.cap = as_vector(cap);
  network.latency = as_vector(latency);
  network.pair_limits = vector_or_none(pair_limits);
  if (!network.pair_limits.empty())
    network.limit_of_pair = vector_or_none(limit_of_pair);
  for (const auto &points : curves) {
    toposeat::SizeCurve &curve = network.curves.emplace_back();
    for (const auto &[size, latency_s, rate] : points)
      curve.push_back({size, latency_s, rate});
  }
  if (!network.curves.empty())
    network.curve_of_pair = vector_or_none(curve_of_pair);
  network.validate();
  return network;
}

RankTraffic make_traffic(std::uint32_t ranks, const InputVector<std::uint32_t> &source,
                         const InputVector<std::uint32_t> &target, const InputVector<double> &bytes,
                         const InputVector<double> &messages,
                         const std::vector<std::tuple<double, double>> &sizes,
                         const OptionalVector<double> &rounds) {
  const std::size_t flows = source.shape(0);
  if (target.shape(0) != flows || bytes.shape(0) != flows || messages.shape(0) != flows ||
      (rounds && rounds->shape(0) != flows)) {
    throw std::invalid_argument("source, target, bytes, messages and rounds differ in length");
  }
  RankTraffic traffic;
  traffic.ranks = ranks;
  for (std::size_t i = 0; i < flows; ++i) {
    traffic.flows.push_back(
        {source(i), target(i), bytes(i), messages(i), rounds ? (*rounds)(i) : 0});
  }
  traffic.sizes.clear();
  for (const auto &[factor, share] : sizes)
    traffic.sizes.push_back({factor, share});
  traffic.validate();
  return traffic;
}

using LinkTuple = std::tuple<std::int64_t, std::int64_t, double, double>;

std::uint32_t as_vertex(std::int64_t number) {
  if (number < 0 || number > std::numeric_limits<std::uint32_t>::max()) {
    throw std::invalid_argument(std::to_string(number) + " is not a vertex");
  }
  return static_cast<std::uint32_t>(number);
}

std::vector<std::uint32_t> as_vertices(const std::vector<std::int64_t> &numbers) {
  std::vector<std::uint32_t> vertices;
  for (const std::int64_t each : numbers)
    vertices.push_back(as_vertex(each));
  return vertices;
}

std::vector<std::vector<LinkPath>> routes(std::int64_t vertices,
                                          const std::vector<LinkTuple> &links,
                                          const std::vector<bool> &forwards,
                                          const std::vector<std::int64_t> &sources,
                                          const std::vector<std::int64_t> &targets) {
  if (vertices < 0 || static_cast<std::size_t>(vertices) != forwards.size()) {
    throw std::invalid_argument("expected one forwarding flag for each of " +
                                std::to_string(vertices) + " vertices, got " +
                                std::to_string(forwards.size()));
  }
  RouteGraph graph;
  graph.forwards = forwards;
  for (const auto &[a, b, latency_s, bandwidth] : links) {
    graph.links.push_back({as_vertex(a), as_vertex(b), latency_s, bandwidth});
  }
  const auto from = as_vertices(sources);
  const auto to = as_vertices(targets);
  std::vector<LinkPath> flat;
  {
    const nb::gil_scoped_release release;
    flat = toposeat::shortest_routes(graph, from, to);
  }
  std::vector<std::vector<LinkPath>> rows(from.size());
  for (std::size_t i = 0; i < flat.size(); ++i)
    rows[i / to.size()].push_back(std::move(flat[i]));
  return rows;
}

constexpr const char *network_doc =
    "Devices, link capacities and routes as numbers; immutable.\n\n"
    "Directed pair (i, j) of devices is entry i * devices + j of `route_begin` (one entry more "
    "than\n"
    "pairs), `cap` and `latency`. Capacities and caps are bytes per second and may be infinite,\n"
    "latencies are seconds per message. `route_reverse` says that a link is walked backwards.\n"
    "Pairs with one number in `limit_of_pair` share that entry of `pair_limits`; a pair with a "
    "number\n"
    "in `curve_of_pair` has that list of (bytes, seconds, bytes per second); -1: none.\n\n"
    "Raises:\n"
    "    ValueError: if sizes, numbers or indices do not fit together.";

constexpr const char *traffic_doc =
    "Bytes and messages of directed rank pairs, each pair at most once; immutable.\n\n"
    "`sizes` says how message sizes spread about their flow's mean: (factor, share of "
    "messages).\n"
    "For `rounds` of the messages their sender waits before it goes on to another rank; None: for "
    "none.\n\n"
    "Raises:\n"
    "    ValueError: on a rank out of range, a pair twice, a rank to itself, or a number that is\n"
    "        negative or not finite.";

constexpr const char *routes_doc =
    "Least-latency routes, as link numbers in order, for every source and target.\n\n"
    "`links` holds (vertex, vertex, latency in seconds, bandwidth). Ties go to fewer links, then "
    "to\n"
    "the higher bottleneck bandwidth, then to smaller link numbers; a route back is the route out\n"
    "reversed. Vertices that do not forward are never passed through, but may be ends.\n\n"
    "Returns:\n"
    "    routes[i][j] from sources[i] to targets[j]; empty if there is none or both are one "
    "vertex.\n\n"
    "Raises:\n"
    "    ValueError: on a vertex that does not exist, a link from a vertex to itself, a latency\n"
    "        outside 0..1000 s or a bandwidth that is not greater than zero.";

} // namespace

void bind_network(nb::module_ &module) {
  using namespace nb::literals;

  nb::class_<Network>(module, "Network", network_doc)
      .def(nb::new_(&make_network), nb::kw_only(), "devices"_a, "forward"_a, "backward"_a,
           "combined"_a, "route_begin"_a, "route_link"_a, "route_reverse"_a, "cap"_a, "latency"_a,
           "pair_limits"_a = nb::none(), "limit_of_pair"_a = nb::none(),
           "curves"_a = std::vector<std::vector<PointTuple>>(), "curve_of_pair"_a = nb::none())
      .def_ro("devices", &Network::devices)
      .def_prop_ro(
          "links", [](const Network &network) { return network.links.size(); }, "Number of links.");

  nb::class_<RankTraffic>(module, "RankTraffic", traffic_doc)
      .def(nb::new_(&make_traffic), nb::kw_only(), "ranks"_a, "source"_a, "target"_a, "bytes"_a,
           "messages"_a, "sizes"_a = std::vector<std::tuple<double, double>>{{1.0, 1.0}},
           "rounds"_a = nb::none())
      .def_ro("ranks", &RankTraffic::ranks)
      .def("__len__", [](const RankTraffic &traffic) { return traffic.flows.size(); });

  module.def("shortest_routes", &routes, "n_vertices"_a, "links"_a, "forwards"_a, "sources"_a,
             "targets"_a, routes_doc);
}
