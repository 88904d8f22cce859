// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/few/small_loads.hpp"

#include <algorithm>
#include <stdexcept>

#include "few/load_enumeration.hpp"

namespace toposeat {
namespace {

constexpr std::uint64_t dive_nodes = 60; // from which on more find little that is better

void check_size(const LoadProblem &problem) {
  if (problem.network.devices > max_small_loads)
    throw std::invalid_argument("too many devices to enumerate");
}

/// A problem without what loads do not depend on, so that it has all symmetries of its loads.
class LoadsAlone {
public:
  explicit LoadsAlone(const LoadProblem &whole)
      : network_(whole.network), traffic_(whole.traffic),
        problem_{network_, traffic_, whole.pinned, whole.floors, whole.allowed} {
    std::fill(network_.cap.begin(), network_.cap.end(), unlimited);
    std::fill(network_.latency.begin(), network_.latency.end(), 0.0);
    network_.limit_of_pair.clear();
    network_.curve_of_pair.clear();
    for (Flow &flow : traffic_.flows)
      flow.messages = 0;
  }
  LoadsAlone(const LoadsAlone &) = delete;
  LoadsAlone &operator=(const LoadsAlone &) = delete;

  [[nodiscard]] const LoadProblem &problem() const { return problem_; }

private:
  Network network_;
  RankTraffic traffic_;
  LoadProblem problem_;
};

} // namespace

BoundedAnswer least_congestion(const LoadProblem &problem, const Assignment &incumbent,
                               double known_bound, const Deadline &deadline,
                               const Requirement &required, double sum_below) {
  check_size(problem);
  if (required.acceptable || required.limit != nullptr)
    return SmallLoads(problem, incumbent, deadline, required).least_maximum(known_bound, sum_below);
  const LoadsAlone alone(problem);
  return SmallLoads(alone.problem(), incumbent, deadline, required)
      .least_maximum(known_bound, sum_below);
}

bool visit_below(const LoadProblem &problem, const Assignment &start, const TimeLimit &limit,
                 const Deadline &deadline, const std::function<double(const Assignment &)> &visit) {
  check_size(problem);
  SmallLoads *search = nullptr;
  bool diving = true;
  const auto accepted = [&](const Assignment &placement) {
    if (!diving)
      search->lower(visit(placement));
    return diving;
  };
  const Requirement required{accepted, &limit};
  SmallLoads loads(problem, start, deadline, required);
  search = &loads;
  const double below_s = visit(loads.dive(dive_nodes));
  diving = false;
  return loads.visit(below_s);
}

} // namespace toposeat
