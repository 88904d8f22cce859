// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/small_loads.hpp"

#include <memory>
#include <stdexcept>
#include <vector>

#include "load_enumeration.hpp"

namespace toposeat {
namespace {

void check_size(const LoadProblem &problem) {
  if (problem.network.devices > max_small_loads)
    throw std::invalid_argument("too many devices to enumerate");
}

} // namespace

BoundedAnswer least_congestion(const LoadProblem &problem, const Assignment &incumbent,
                               double known_bound, const Deadline &deadline,
                               const Requirement &required, double sum_below) {
  check_size(problem);
  return SmallLoads(problem, incumbent, deadline, required).least_maximum(known_bound, sum_below);
}

bool visit_below(const LoadProblem &problem, double below_s, const TimeLimit &limit,
                 const Deadline &deadline, const std::function<double(const Assignment &)> &visit) {
  check_size(problem);
  SmallLoads *search = nullptr;
  const auto refuse = [&](const Assignment &placement) {
    search->lower(visit(placement));
    return false;
  };
  const Requirement required{refuse, &limit};
  SmallLoads loads(problem, Assignment(), deadline, required);
  search = &loads;
  return loads.visit(below_s);
}

CheapestWithin::CheapestWithin(const LoadProblem &problem, const Qap &qap, double most_s,
                               const Deadline &deadline, const Requirement &required) {
  check_size(problem);
  search_ = std::make_unique<SmallLoads>(problem, Assignment(), deadline, required);
  search_->ask_for_cost(qap, most_s);
}

CheapestWithin::~CheapestWithin() = default;

std::vector<Assignment> CheapestWithin::below(double upper, std::size_t count) {
  return search_->cheapest(upper, count);
}

} // namespace toposeat
