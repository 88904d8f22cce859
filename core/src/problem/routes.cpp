// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/problem/routes.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <stdexcept>
#include <string>
#include <utility>

namespace toposeat {
namespace {

constexpr double largest_latency_s = 1000; // 2^63 ps hold 9000 such links in a row
constexpr double picoseconds = 1e12;

struct Distance {
  std::int64_t latency_ps = std::numeric_limits<std::int64_t>::max();
  std::uint32_t links = std::numeric_limits<std::uint32_t>::max();

  friend auto operator<=>(const Distance &, const Distance &) = default;
  [[nodiscard]] bool reached() const { return links != Distance{}.links; }
};

struct Step {
  std::uint32_t link;
  std::uint32_t to;
};

/// Adjacency lists, in order of link number.
class Neighbours {
public:
  explicit Neighbours(const RouteGraph &graph) : steps_(graph.vertices()) {
    for (std::uint32_t i = 0; i < graph.links.size(); ++i) {
      steps_[graph.links[i].a].push_back({i, graph.links[i].b});
      steps_[graph.links[i].b].push_back({i, graph.links[i].a});
    }
  }
  [[nodiscard]] const std::vector<Step> &of(std::uint32_t vertex) const { return steps_[vertex]; }

private:
  std::vector<std::vector<Step>> steps_;
};

/// All routes from one root. Rules 1 and 2 give every vertex a distance; the links that lead from
/// one vertex to the next at exactly that distance form an acyclic graph, in which rules 3 and 4
/// choose.
class RoutesFrom {
public:
  RoutesFrom(const RouteGraph &graph, const Neighbours &neighbours, std::uint32_t root)
      : graph_(graph), neighbours_(neighbours), root_(root), distance_(graph.vertices()) {
    measure();
    widen();
  }

  [[nodiscard]] LinkPath to(std::uint32_t target) const {
    if (target == root_ || !distance_[target].reached())
      return {};
    const std::vector<bool> leads = vertices_that_lead_to(target);
    LinkPath path;
    for (std::uint32_t at = root_; at != target;) {
      for (const Step &step : neighbours_.of(at)) {
        if (leads[step.to] && is_tight(at, step) && is_wide(step.link, target)) {
          path.push_back(step.link);
          at = step.to;
          break; // lists are in order of link number: the first is the smallest
        }
      }
    }
    return path;
  }

private:
  [[nodiscard]] std::int64_t latency_ps(std::uint32_t link) const {
    return std::llround(graph_.links[link].latency_s * picoseconds);
  }

  [[nodiscard]] bool passes(std::uint32_t vertex) const {
    return vertex == root_ || graph_.forwards[vertex];
  }

  [[nodiscard]] Distance after(std::uint32_t from, const Step &step) const {
    return {distance_[from].latency_ps + latency_ps(step.link), distance_[from].links + 1};
  }

  /// Whether the step lies on a shortest walk from the root to where it leads.
  [[nodiscard]] bool is_tight(std::uint32_t from, const Step &step) const {
    return passes(from) && distance_[from].reached() && after(from, step) == distance_[step.to];
  }

  [[nodiscard]] bool is_wide(std::uint32_t link, std::uint32_t target) const {
    return graph_.links[link].bandwidth >= width_[target];
  }

  void measure() {
    using Entry = std::pair<Distance, std::uint32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    distance_[root_] = {0, 0};
    queue.emplace(distance_[root_], root_);
    while (!queue.empty()) {
      const auto [distance, vertex] = queue.top();
      queue.pop();
      if (distance != distance_[vertex])
        continue; // a shorter walk was found since
      order_.push_back(vertex);
      if (!passes(vertex))
        continue;
      for (const Step &step : neighbours_.of(vertex)) {
        const Distance next = after(vertex, step);
        if (next >= distance_[step.to])
          continue;
        distance_[step.to] = next;
        queue.emplace(next, step.to);
      }
    }
  }

  /// width_[v]: the highest bottleneck of all shortest walks to v.
  void widen() {
    width_.assign(graph_.vertices(), 0);
    width_[root_] = std::numeric_limits<double>::infinity();
    for (const std::uint32_t vertex : order_) {
      for (const Step &step : neighbours_.of(vertex)) {
        if (!is_tight(vertex, step))
          continue;
        const double width = std::min(width_[vertex], graph_.links[step.link].bandwidth);
        width_[step.to] = std::max(width_[step.to], width);
      }
    }
  }

  /// Vertices on a shortest walk to `target` that has its highest bottleneck.
  [[nodiscard]] std::vector<bool> vertices_that_lead_to(std::uint32_t target) const {
    std::vector<bool> leads(graph_.vertices(), false);
    std::vector<std::uint32_t> todo = {target};
    leads[target] = true;
    while (!todo.empty()) {
      const std::uint32_t at = todo.back();
      todo.pop_back();
      for (const Step &back : neighbours_.of(at)) {
        if (leads[back.to] || !is_tight(back.to, {back.link, at}))
          continue;
        if (!is_wide(back.link, target))
          continue;
        leads[back.to] = true;
        todo.push_back(back.to);
      }
    }
    return leads;
  }

  const RouteGraph &graph_;
  const Neighbours &neighbours_;
  std::uint32_t root_;
  std::vector<Distance> distance_;
  std::vector<std::uint32_t> order_; // reached vertices, nearest first
  std::vector<double> width_;
};

void check_vertices(const char *what, std::span<const std::uint32_t> vertices,
                    std::uint32_t count) {
  for (const std::uint32_t vertex : vertices) {
    if (vertex >= count) {
      throw std::invalid_argument(std::string(what) + " " + std::to_string(vertex) +
                                  " is not a vertex, there are " + std::to_string(count));
    }
  }
}

struct Request {
  std::uint32_t low; // routes are found from the smaller vertex to the larger
  std::uint32_t high;
  bool reversed;
  std::size_t entry;
};

} // namespace

void RouteGraph::validate() const {
  for (std::size_t i = 0; i < links.size(); ++i) {
    const GraphLink &link = links[i];
    const std::string name = "link " + std::to_string(i);
    if (link.a >= vertices() || link.b >= vertices()) {
      throw std::invalid_argument(name + " ends at a vertex that does not exist");
    }
    if (link.a == link.b)
      throw std::invalid_argument(name + " joins a vertex to itself");
    if (!(link.latency_s >= 0 && link.latency_s <= largest_latency_s)) {
      throw std::invalid_argument(name + ": the latency is not between 0 and 1000 s");
    }
    if (!(link.bandwidth > 0)) {
      throw std::invalid_argument(name + ": the bandwidth is not greater than zero");
    }
  }
  const double longest =
      static_cast<double>(vertices()) * std::transform_reduce(
                                            links.begin(), links.end(), 0.0,
                                            [](double x, double y) { return std::max(x, y); },
                                            [](const GraphLink &link) { return link.latency_s; });
  if (longest * picoseconds > 9e18) {
    throw std::invalid_argument("latencies are too large to add up");
  }
}

std::vector<LinkPath> shortest_routes(const RouteGraph &graph,
                                      std::span<const std::uint32_t> sources,
                                      std::span<const std::uint32_t> targets) {
  graph.validate();
  check_vertices("source", sources, graph.vertices());
  check_vertices("target", targets, graph.vertices());
  std::vector<Request> requests;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    for (std::size_t j = 0; j < targets.size(); ++j) {
      const auto [low, high] = std::minmax(sources[i], targets[j]);
      requests.push_back({low, high, sources[i] != low, i * targets.size() + j});
    }
  }
  std::sort(requests.begin(), requests.end(),
            [](const Request &x, const Request &y) { return x.low < y.low; });

  const Neighbours neighbours(graph);
  std::vector<LinkPath> routes(requests.size());
  for (std::size_t i = 0; i < requests.size();) {
    const std::uint32_t root = requests[i].low;
    const RoutesFrom from(graph, neighbours, root);
    for (; i < requests.size() && requests[i].low == root; ++i) {
      LinkPath path = from.to(requests[i].high);
      if (requests[i].reversed)
        std::reverse(path.begin(), path.end());
      routes[requests[i].entry] = std::move(path);
    }
  }
  return routes;
}

} // namespace toposeat
