// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/scotch/scotch.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "scotch/scotch_library.hpp"

namespace toposeat {
namespace {

// Scotch multiplies loads with distances, and distances with each other, in SCOTCH_Num, which most
// builds make 32 bits wide: larger scales overflow and give poor answers without a word.
constexpr double total_load = 1e6;        // of all edges of the traffic
constexpr double largest_distance = 1000; // of one edge of the machine

/// Symmetric weighted graph in Scotch's compressed form; weights are scaled to integers >= 1.
template <class Number> struct Graph {
  std::vector<Number> begin{0};
  std::vector<Number> targets;
  std::vector<Number> loads;

  /// All pairs, the widest as `largest_distance`.
  static Graph machine(const Matrix &distance) {
    double widest = 0;
    for (std::size_t i = 0; i < distance.n; ++i) {
      for (std::size_t j = 0; j < i; ++j)
        widest = std::max(widest, distance(i, j) + distance(j, i));
    }
    return Graph(distance, widest > 0 ? largest_distance / widest : 0, true);
  }

  /// Pairs that talk, all together at `total_load`.
  static Graph traffic(const Matrix &flow) {
    double total = 0;
    for (const double bytes : flow.values)
      total += bytes;
    return Graph(flow, total > 0 ? total_load / total : 0, false);
  }

private:
  Graph(const Matrix &weights, double scale, bool complete) {
    for (std::size_t i = 0; i < weights.n; ++i) {
      for (std::size_t j = 0; j < weights.n; ++j) {
        const double weight = weights(i, j) + weights(j, i);
        if (i == j || (!complete && !(weight > 0)))
          continue;
        targets.push_back(static_cast<Number>(j));
        loads.push_back(static_cast<Number>(std::max(1.0, std::round(weight * scale))));
      }
      begin.push_back(static_cast<Number>(targets.size()));
    }
  }
};

template <class Number>
void build(const ScotchFunctions<Number> &scotch, const ScotchHandle &handle,
           const Graph<Number> &graph) {
  const auto vertices = static_cast<Number>(graph.begin.size() - 1);
  if (scotch.graph_build(handle.get(), 0, vertices, graph.begin.data(), nullptr, nullptr, nullptr,
                         static_cast<Number>(graph.targets.size()), graph.targets.data(),
                         graph.loads.data()) != 0)
    throw std::runtime_error("scotch refused a graph");
}

template <class Number>
std::vector<std::int64_t> run(const ScotchLibrary &library, const Qap &qap, std::uint64_t seed) {
  const ScotchFunctions<Number> scotch = library.functions<Number>();
  const auto machine = Graph<Number>::machine(qap.distance);
  const auto traffic = Graph<Number>::traffic(qap.flow);
  scotch.random_seed(static_cast<Number>(seed % 0x7fffffffU));
  library.random_reset();

  const ScotchHandle machine_graph(library, library.graph_make, library.graph_init,
                                   library.graph_exit);
  const ScotchHandle plain(library, library.graph_make, library.graph_init, library.graph_exit);
  const ScotchHandle target(library, library.target_make, library.target_init, library.target_exit);
  // One each: an empty strategy becomes one of splitting or one of mapping where it is first used.
  const ScotchHandle splitting(library, library.strategy_make, library.strategy_init,
                               library.strategy_exit);
  const ScotchHandle mapping(library, library.strategy_make, library.strategy_init,
                             library.strategy_exit);
  build(scotch, machine_graph, machine);
  build(scotch, plain, traffic);
  if (scotch.target_build(target.get(), machine_graph.get(), 0, nullptr, splitting.get()) != 0)
    throw std::runtime_error("scotch refused the machine");

  std::vector<Number> part(qap.size(), 0);
  scotch_map_single_threaded(library, scotch, plain, target, mapping, part.data());
  return {part.begin(), part.end()};
}

/// Pinned ranks first, then by falling traffic those that Scotch placed on a device still free;
/// what is left goes where it costs least beside the ranks already placed.
class Repair {
public:
  Repair(const Qap &qap, const std::vector<std::int64_t> &raw)
      : qap_(qap), placement_(qap.size(), Qap::no_pin), taken_(qap.size(), false) {
    for (std::uint32_t r = 0; r < qap.size(); ++r) {
      if (!qap.free_rank(r))
        seat(r, qap.pinned[r]);
    }
    std::vector<std::uint32_t> homeless;
    for (const std::uint32_t rank : by_traffic()) {
      const std::int64_t device = raw[rank];
      const bool exists = device >= 0 && device < static_cast<std::int64_t>(qap.size());
      if (exists && !taken_[static_cast<std::size_t>(device)])
        seat(rank, static_cast<std::uint32_t>(device));
      else
        homeless.push_back(rank);
    }
    for (const std::uint32_t rank : homeless)
      seat(rank, cheapest_free(rank));
  }

  [[nodiscard]] const Assignment &placement() const { return placement_; }

private:
  void seat(std::uint32_t rank, std::uint32_t device) {
    placement_[rank] = device;
    taken_[device] = true;
  }

  [[nodiscard]] std::vector<std::uint32_t> by_traffic() const {
    std::vector<double> total(qap_.size(), 0);
    std::vector<std::uint32_t> ranks;
    for (std::uint32_t r = 0; r < qap_.size(); ++r) {
      for (std::size_t s = 0; s < qap_.size(); ++s)
        total[r] += qap_.flow(r, s) + qap_.flow(s, r);
      if (qap_.free_rank(r))
        ranks.push_back(r);
    }
    std::sort(ranks.begin(), ranks.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(-total[a], a) < std::pair(-total[b], b);
    });
    return ranks;
  }

  [[nodiscard]] std::uint32_t cheapest_free(std::uint32_t rank) const {
    std::uint32_t best = 0;
    double least = unlimited;
    for (std::uint32_t d = 0; d < qap_.size(); ++d) {
      if (taken_[d])
        continue;
      double cost = 0;
      for (std::size_t s = 0; s < qap_.size(); ++s) {
        if (placement_[s] != Qap::no_pin)
          cost += qap_.flow(rank, s) * qap_.distance(d, placement_[s]) +
                  qap_.flow(s, rank) * qap_.distance(placement_[s], d);
      }
      if (cost < least) {
        least = cost;
        best = d;
      }
    }
    return best;
  }

  const Qap &qap_;
  Assignment placement_;
  std::vector<bool> taken_;
};

} // namespace

bool scotch_available() { return ScotchLibrary::instance() != nullptr; }

ScotchAnswer scotch_map(const Qap &qap, std::uint64_t seed) {
  const ScotchLibrary *library = ScotchLibrary::instance();
  if (library == nullptr)
    throw std::runtime_error("the scotch library was not found");
  ScotchAnswer answer;
  answer.raw = library->number_size == sizeof(std::int32_t)
                   ? run<std::int32_t>(*library, qap, seed)
                   : run<std::int64_t>(*library, qap, seed);
  answer.placement = Repair(qap, answer.raw).placement();
  for (std::size_t r = 0; r < qap.active; ++r)
    answer.moved += static_cast<std::int64_t>(answer.placement[r]) != answer.raw[r] ? 1U : 0U;
  return answer;
}

} // namespace toposeat
