// SPDX-License-Identifier: MIT OR Apache-2.0
#include "few/cheapest_first.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <utility>

#include "loads/rank_twins.hpp"

namespace toposeat {
namespace {

constexpr std::size_t few_opened = 16; // after so many it pays to look for symmetries

constexpr std::uint32_t every_way = (1U << last_ways) - 1;

/// [rank of the last four][which of their devices]: the ways in which it has that one, as a set.
constexpr auto ways_by_seat = [] {
  std::array<std::array<std::uint32_t, last_ranks>, last_ranks> sets{};
  for (std::size_t way = 0; way < last_ways; ++way) {
    for (std::size_t k = 0; k < last_ranks; ++k)
      sets[k][last_seat(way, k)] |= 1U << way;
  }
  return sets;
}();

/// Of the heap: the least bound is on top, and of equal ones the placement that is told apart
/// first.
bool after(const OpenPart &one, const OpenPart &other) {
  return one.bound > other.bound || (one.bound == other.bound && one.devices > other.devices);
}

/// Whether every rank of a part is on a greater device than its earlier twins.
bool leads(const OrbitLeaders &leaders, const OpenPart &part) {
  const SmallCosts::Devices devices = part.all();
  for (std::size_t p = 1; p < part.placed; ++p) {
    if ((leaders.above_twins(std::span(devices).first(p), p) >> devices[p] & 1U) == 0)
      return false;
  }
  return true;
}

} // namespace

CheapestFirst::CheapestFirst(const LoadProblem &problem, std::unique_ptr<SmallCosts> costs,
                             std::vector<OpenPart> parts, double below)
    : problem_(problem), costs_(std::move(costs)), parts_(std::move(parts)),
      below_(costs_->prepared().prepared(below)) {}

void CheapestFirst::spare(OrbitLeaders leaders) {
  if (costs_->order().size() > last_ranks)
    against_twins_ = leaders.ways_against_twins(costs_->order().size() - last_ranks);
  leaders_.emplace(std::move(leaders));
}

void CheapestFirst::spare_twins() {
  if (leaders_)
    return;
  OrbitLeaders twins(later_twins(problem_, costs_->order(), costs_->original().active));
  std::erase_if(parts_, [&](const OpenPart &part) { return !leads(twins, part); });
  std::make_heap(parts_.begin(), parts_.end(), after);
  spare(std::move(twins));
}

std::optional<Assignment> CheapestFirst::next(TimeLimit &limit) {
  if (!in_heap_) // mostly nobody asks
    std::make_heap(parts_.begin(), parts_.end(), after);
  in_heap_ = true;
  while (!parts_.empty()) {
    const OpenPart part = take_least();
    if (++opened_ == few_opened)
      spare_twins();
    if (slow_alone(part, limit))
      continue;
    if (costs_->four_left(part.placed)) {
      if (std::optional<Assignment> placement = next_way(part, limit))
        return placement;
    } else if (part.placed < costs_->order().size()) {
      open(part, limit);
    } else if (Assignment placement = costs_->whole(part.all()); !limit.exceeded(placement)) {
      return placement;
    }
  }
  return std::nullopt;
}

OpenPart CheapestFirst::take_least() {
  std::pop_heap(parts_.begin(), parts_.end(), after);
  const OpenPart least = parts_.back();
  parts_.pop_back();
  return least;
}

void CheapestFirst::keep(const OpenPart &part) {
  if (!(part.bound < below_))
    return;
  parts_.push_back(part);
  std::push_heap(parts_.begin(), parts_.end(), after);
}

/// The cost of the ranks placed, and `linear` of the others.
double CheapestFirst::place_all(const OpenPart &part, SmallTable &linear) const {
  double placed = 0;
  linear = costs_->nothing_placed();
  for (std::size_t p = 0; p < part.placed; ++p) {
    placed += linear[p][part.device(p)];
    SmallTable next;
    costs_->place(p, part.device(p), linear, next);
    linear = next;
  }
  return placed;
}

void CheapestFirst::open(OpenPart part, const TimeLimit &limit) {
  SmallTable linear;
  const double placed = place_all(part, linear);
  const std::size_t depth = part.placed;
  const SmallCosts::Devices devices = part.all();
  const auto fixed = std::span(devices).first(depth);
  std::uint32_t set = permitted(part, depth, limit);
  for (std::uint32_t d = 0; d < SmallCosts::width; ++d)
    set &= linear[depth][d] < unlimited ? ~0U : ~(1U << d);
  if (leaders_ && part.symmetric)
    set = leaders_->least(fixed, set, part.symmetric);
  if (leaders_)
    set &= leaders_->above_twins(fixed, depth);
  for (; set != 0; set &= set - 1) {
    const auto device = static_cast<std::size_t>(std::countr_zero(set));
    const double then = placed + linear[depth][device];
    SmallTable next;
    keep(part.with(then + costs_->place(depth, device, linear, next), depth, device));
  }
}

/// The cheapest way of a part in which only the last four are left that the limit does not exclude,
/// if nothing that is kept may be cheaper; what is left of the part is kept.
std::optional<Assignment> CheapestFirst::next_way(OpenPart part, TimeLimit &limit) {
  const FourDevices devices = costs_->left_by(part.all());
  const std::uint32_t possible = possible_ways(part, devices, limit);
  if (possible == 0)
    return std::nullopt;
  SmallTable linear;
  const double placed = place_all(part, linear);
  Ways costs = costs_->of_ways(placed, linear, devices);
  for (std::size_t way = 0; way < last_ways; ++way) {
    const bool before = part.way < last_ways &&
                        (costs[way] < part.bound || (costs[way] == part.bound && way < part.way));
    if (before || (possible >> way & 1U) == 0)
      costs[way] = unlimited;
  }
  std::optional<Assignment> found;
  while (true) {
    const auto least = std::min_element(costs.begin(), costs.end());
    part.bound = *least;
    part.way = static_cast<std::uint8_t>(least - costs.begin());
    if (found || !(part.bound < below_) || (!parts_.empty() && after(part, parts_.front())))
      break;
    *least = unlimited;
    OpenPart whole = part;
    for (std::size_t k = 0; k < last_ranks; ++k)
      whole = whole.with(part.bound, part.placed + k, devices[last_seat(part.way, k)]);
    Assignment placement = costs_->whole(whole.all());
    if (!limit.exceeded(placement))
      found = std::move(placement);
  }
  keep(part);
  return found;
}

/// Those, as a set, that neither lone flows nor symmetries exclude.
std::uint32_t CheapestFirst::possible_ways(const OpenPart &part, const FourDevices &devices,
                                           const TimeLimit &limit) const {
  const SmallCosts::Devices all = part.all();
  const auto fixed = std::span(all).first(part.placed);
  std::uint32_t possible = every_way & ~against_twins_;
  for (std::size_t k = 0; k < last_ranks; ++k) {
    const std::size_t rank = part.placed + k;
    std::uint32_t set = permitted(part, rank, limit);
    if (leaders_)
      set &= leaders_->above_twins(fixed, rank);
    for (std::size_t seat = 0; seat < last_ranks; ++seat) {
      if ((set >> devices[seat] & 1U) == 0)
        possible &= ~ways_by_seat[k][seat];
    }
  }
  return possible;
}

/// Whether some of those placed are too far apart for what they exchange.
bool CheapestFirst::slow_alone(const OpenPart &part, const TimeLimit &limit) const {
  for (std::size_t p = 1; p < part.placed; ++p) {
    if ((permitted(part, p, limit) >> part.device(p) & 1U) == 0)
      return true;
  }
  return false;
}

/// Devices that what a rank exchanges with each of those placed before it leaves to it.
std::uint32_t CheapestFirst::permitted(const OpenPart &part, std::size_t rank,
                                       const TimeLimit &limit) const {
  std::uint32_t set = (1U << SmallCosts::width) - 1;
  for (std::size_t p = 0; p < std::min<std::size_t>(part.placed, rank); ++p)
    set &= limit.devices_beside(costs_->order()[p], part.device(p), costs_->order()[rank]);
  return set;
}

} // namespace toposeat
