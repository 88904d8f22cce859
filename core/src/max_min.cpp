// SPDX-License-Identifier: MIT OR Apache-2.0
#include "max_min.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "toposeat/flow.hpp"

namespace toposeat {
namespace {

// Levels this near to each other are one level: it keeps equal shares, which rounding splits, in
// one round of the filling.
constexpr double same_level = 1 + 1e-12;

} // namespace

MaxMinSystem::MaxMinSystem(const std::vector<LinkCapacity> &links)
    : links_(links), local_of_(links.size() * 3, no_link) {}

void MaxMinSystem::reset(std::size_t variables) {
  for (const Constraint &each : constraints_)
    local_of_[each.id] = no_link;
  constraints_.clear();
  for (auto *each : {&volume_, &start_, &bound_, &rate_}) {
    each->clear();
    each->reserve(variables);
  }
  bound_link_.clear();
  limit_.assign(variables, no_link);
  state_.assign(variables, State::idle);
  elements_.clear();
  elements_begin_.assign(1, 0);
  running_ = 0;
}

void MaxMinSystem::add_variable(double volume, double start, double cap) {
  volume_.push_back(volume);
  start_.push_back(start);
  bound_.push_back(cap);
  bound_link_.push_back(no_link);
  rate_.push_back(0);
  elements_begin_.push_back(elements_begin_.back());
}

void MaxMinSystem::add_element(const LinkUse &use_of_link) {
  const LinkCapacity &link = links_[use_of_link.link];
  const std::uint32_t first = use_of_link.link * 3;
  if (use_of_link.reverse) {
    use(first + 1, link.backward);
  } else {
    use(first, link.forward);
  }
  use(first + 2, link.combined);
}

void MaxMinSystem::use(std::uint32_t id, double capacity) {
  if (std::isinf(capacity))
    return;
  std::uint32_t &local = local_of_[id];
  if (local == no_link) {
    local = static_cast<std::uint32_t>(constraints_.size());
    constraints_.push_back({.id = id, .capacity = capacity, .earliest = unlimited});
  }
  Constraint &constraint = constraints_[local];
  constraint.volume += volume_.back();
  constraint.earliest = std::min(constraint.earliest, start_.back());
  ++constraint.users;
  elements_.push_back(local);
  ++elements_begin_.back();
  if (capacity < bound_.back()) {
    bound_.back() = capacity;
    bound_link_.back() = id / 3;
  }
}

void MaxMinSystem::close() {
  bound_time();
  list_users();
  by_bound_.resize(bound_.size());
  std::iota(by_bound_.begin(), by_bound_.end(), 0U);
  std::sort(by_bound_.begin(), by_bound_.end(), [this](std::uint32_t a, std::uint32_t b) {
    return bound_[a] < bound_[b] || (bound_[a] == bound_[b] && a < b);
  });
}

void MaxMinSystem::bound_time() {
  lower_bound_ = 0;
  for (std::size_t v = 0; v < bound_.size(); ++v) {
    lower_bound_ = std::max(lower_bound_, start_[v] + volume_[v] / bound_[v]);
  }
  for (const Constraint &each : constraints_) {
    lower_bound_ = std::max(lower_bound_, each.earliest + each.volume / each.capacity);
  }
}

void MaxMinSystem::list_users() {
  users_begin_.assign(constraints_.size() + 1, 0);
  for (std::size_t c = 0; c < constraints_.size(); ++c) {
    users_begin_[c + 1] = users_begin_[c] + constraints_[c].users;
  }
  users_.resize(users_begin_.back());
  growing_.assign(users_begin_.begin(), users_begin_.end() - 1); // here: where the next one goes
  for (std::uint32_t v = 0; v < bound_.size(); ++v) {
    for (const std::uint32_t c : elements(v))
      users_[growing_[c]++] = v;
  }
  left_.resize(constraints_.size());
}

std::span<const std::uint32_t> MaxMinSystem::elements(std::uint32_t variable) const {
  const std::size_t begin = elements_begin_[variable];
  const std::size_t end = elements_begin_[variable + std::size_t{1}];
  return std::span(elements_).subspan(begin, end - begin);
}

void MaxMinSystem::start(std::uint32_t variable) {
  state_[variable] = State::frozen;
  ++running_;
  for (const std::uint32_t c : elements(variable)) {
    ++constraints_[c].running;
    constraints_[c].demand += bound_[variable];
  }
}

void MaxMinSystem::finish(std::uint32_t variable) {
  state_[variable] = State::idle;
  --running_;
  for (const std::uint32_t c : elements(variable)) {
    --constraints_[c].running;
    constraints_[c].demand -= bound_[variable];
  }
}

void MaxMinSystem::fill() {
  grow_from_zero();
  double level = 0;
  while (to_freeze_ > 0) {
    const double share = smallest_share();
    const double cap = smallest_bound();
    // Levels only rise; rounding must not let one fall, or a rate could become negative.
    level = std::max(level, std::min(share, cap));
    freeze_at_bounds(level);
    if (share <= level * same_level)
      freeze_at_full_constraints(level);
  }
}

/// A constraint that its variables together cannot fill, even each at the rate it has alone, stops
/// nothing now: most links of a machine, in particular those with a single variable.
void MaxMinSystem::grow_from_zero() {
  live_.clear();
  for (std::uint32_t c = 0; c < constraints_.size(); ++c) {
    const Constraint &each = constraints_[c];
    if (each.running == 0 || each.demand <= each.capacity)
      continue;
    left_[c] = each.capacity;
    growing_[c] = each.running;
    live_.push_back(c);
  }
  for (State &each : state_) {
    if (each == State::frozen)
      each = State::growing;
  }
  next_bound_ = 0;
  to_freeze_ = running_;
}

/// Smallest equal share of what is left; forgets constraints whose variables are all frozen.
double MaxMinSystem::smallest_share() {
  double share = unlimited;
  std::size_t kept = 0;
  for (const std::uint32_t c : live_) {
    if (growing_[c] == 0)
      continue;
    share = std::min(share, left_[c] / growing_[c]);
    live_[kept++] = c;
  }
  live_.resize(kept);
  return share;
}

double MaxMinSystem::smallest_bound() {
  while (state_[by_bound_[next_bound_]] != State::growing)
    ++next_bound_;
  return bound_[by_bound_[next_bound_]];
}

void MaxMinSystem::freeze_at_bounds(double level) {
  for (std::size_t i = next_bound_; i < by_bound_.size(); ++i) {
    const std::uint32_t v = by_bound_[i];
    if (bound_[v] > level * same_level)
      return;
    if (state_[v] == State::growing)
      freeze(v, bound_[v], bound_link_[v]);
  }
}

/// Freezing lowers what the others have left by the level for each, so that a share found full
/// stays full whatever the order.
void MaxMinSystem::freeze_at_full_constraints(double level) {
  for (const std::uint32_t c : live_) {
    if (growing_[c] == 0 || left_[c] > level * same_level * growing_[c])
      continue;
    for (std::uint32_t i = users_begin_[c]; i < users_begin_[c + std::size_t{1}]; ++i) {
      if (state_[users_[i]] == State::growing)
        freeze(users_[i], level, constraints_[c].id / 3);
    }
  }
}

void MaxMinSystem::freeze(std::uint32_t variable, double rate, std::uint32_t limit) {
  state_[variable] = State::frozen;
  rate_[variable] = rate;
  limit_[variable] = limit;
  --to_freeze_;
  for (const std::uint32_t c : elements(variable)) {
    left_[c] -= rate;
    --growing_[c];
  }
}

} // namespace toposeat
