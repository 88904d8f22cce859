// SPDX-License-Identifier: MIT OR Apache-2.0
#include "flow/max_min.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/least_of.hpp"
#include "base/wide.hpp"
#include "toposeat/flow/flow.hpp"

namespace toposeat {
namespace {

// Levels this near to each other are one level: it keeps equal shares, which rounding splits, in
// one round of the filling.
constexpr double same_level = 1 + 1e-12;

constexpr std::size_t few_columns = 8;        // about as many as a variable uses
constexpr std::size_t most_rooms = 1U << 16U; // kept of all rounds: 1 MiB

/// Equal share of what a column has left. One that rounding left with nothing or less has next to
/// nothing, one without growing variables an infinite share.
TOPOSEAT_INLINE double share_of(const Room &room) {
  constexpr double least = std::numeric_limits<double>::min(); // over 0: infinity
  return (room.left > least ? room.left : least) / room.growing;
}

/// Writes the share of each column and returns the smallest.
TOPOSEAT_WIDE double share_columns(const Room *__restrict rooms, std::size_t columns,
                                   double *__restrict shares) {
  for (std::size_t c = 0; c < columns; ++c)
    shares[c] = share_of(rooms[c]);
  return least_of({shares, columns});
}

} // namespace

MaxMinSystem::MaxMinSystem(const std::vector<LinkCapacity> &links,
                           const std::vector<double> &pair_limits)
    : links_(links), pair_limits_(pair_limits),
      local_of_(links.size() * 3 + pair_limits.size(), no_link) {}

void MaxMinSystem::reset(std::size_t variables) {
  for (const Constraint &each : constraints_)
    local_of_[each.id] = no_link;
  constraints_.clear();
  for (auto *each : {&volume_, &start_, &bound_}) {
    each->clear();
    each->reserve(variables);
  }
  bound_link_.clear();
  used_.clear();
  used_begin_.assign(1, 0);
}

void MaxMinSystem::add_variable(double volume, double start, double cap) {
  volume_.push_back(volume);
  start_.push_back(start);
  bound_.push_back(cap);
  bound_link_.push_back(no_link);
  used_begin_.push_back(used_begin_.back());
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

void MaxMinSystem::add_limit(std::size_t limit) {
  use(static_cast<std::uint32_t>(links_.size() * 3 + limit), pair_limits_[limit]);
}

/// Of a constraint; a pair limit belongs to no link.
std::uint32_t MaxMinSystem::link_of(std::uint32_t id) const {
  return id < links_.size() * 3 ? id / 3 : no_link;
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
  used_.push_back(local);
  ++used_begin_.back();
  if (capacity < bound_.back()) {
    bound_.back() = capacity;
    bound_link_.back() = link_of(id);
  }
}

void MaxMinSystem::close() {
  bound_time();
  choose_columns();
  list_elements();
  list_users();
  list_bounds();
  const std::size_t columns = capacity_.size();
  most_rounds_ = std::clamp<std::size_t>(most_rooms / (columns + 1), 1, bound_.size() + 1);
  rooms_.resize(std::max(rooms_.size(), columns));
  shares_.resize(columns);
  full_.resize(columns);
  for (std::size_t c = 0; c < columns; ++c)
    rooms_[c] = {capacity_[c], 0};
  rate_.assign(bound_.size(), 0);
  limit_.assign(bound_.size(), no_link);
  growing_.assign(bound_.size(), 0);
  round_.assign(bound_.size(), 0);
  rounds_.assign(1, {0, 0, by_bound_.size()});
  order_.clear();
  changed_.clear();
  valid_ = 0;
  unsettled_ = 0;
  to_freeze_ = 0;
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

double MaxMinSystem::lower_bound_from(double now, std::span<const double> bytes) {
  double bound = now;
  for (Constraint &each : constraints_)
    each.volume = 0;
  for (std::size_t v = 0; v < bytes.size(); ++v) {
    bound = std::max(bound, now + bytes[v] / bound_[v]);
    for (std::uint32_t i = used_begin_[v]; i < used_begin_[v + 1]; ++i)
      constraints_[used_[i]].volume += bytes[v];
  }
  for (const Constraint &each : constraints_)
    bound = std::max(bound, now + each.volume / each.capacity);
  return bound;
}

/// A constraint that its variables together cannot fill, even each at the rate it has alone, stops
/// nothing: most links of a machine, in particular those with a single variable.
void MaxMinSystem::choose_columns() {
  for (std::size_t v = 0; v < bound_.size(); ++v) {
    for (std::uint32_t i = used_begin_[v]; i < used_begin_[v + 1]; ++i)
      constraints_[used_[i]].demand += bound_[v];
  }
  capacity_.clear();
  column_link_.clear();
  for (Constraint &each : constraints_) {
    each.column = no_link;
    if (each.demand <= each.capacity)
      continue;
    each.column = static_cast<std::uint32_t>(capacity_.size());
    capacity_.push_back(each.capacity);
    column_link_.push_back(link_of(each.id));
  }
}

/// The columns of each variable, and its bound as far as none of them is as narrow.
void MaxMinSystem::list_elements() {
  elements_.clear();
  elements_begin_.assign(1, 0);
  own_bound_.clear();
  users_begin_.assign(capacity_.size() + 1, 0);
  for (std::size_t v = 0; v < bound_.size(); ++v) {
    bool implied = false;
    for (std::uint32_t i = used_begin_[v]; i < used_begin_[v + 1]; ++i) {
      const Constraint &each = constraints_[used_[i]];
      if (each.column == no_link)
        continue;
      implied = implied || each.capacity <= bound_[v];
      elements_.push_back(each.column);
      ++users_begin_[each.column + std::size_t{1}];
    }
    const auto end = static_cast<std::uint32_t>(elements_.size());
    const bool alone = end == elements_begin_.back();
    own_bound_.push_back(implied || alone ? unlimited : bound_[v]);
    elements_begin_.push_back(end);
  }
}

void MaxMinSystem::list_users() {
  for (std::size_t c = 0; c < capacity_.size(); ++c)
    users_begin_[c + 1] += users_begin_[c];
  users_.resize(elements_.size());
  users_end_.assign(users_begin_.begin(), users_begin_.end() - 1);
  for (std::uint32_t v = 0; v < bound_.size(); ++v) {
    for (const std::uint32_t c : elements(v))
      users_[users_end_[c]++] = v;
  }
}

void MaxMinSystem::list_bounds() {
  by_bound_.clear();
  for (std::uint32_t v = 0; v < bound_.size(); ++v) {
    if (own_bound_[v] < unlimited)
      by_bound_.push_back(v);
  }
  sorter_.sort(by_bound_, own_bound_);
  bound_place_.assign(bound_.size(), static_cast<std::uint32_t>(by_bound_.size()));
  for (std::uint32_t i = 0; i < by_bound_.size(); ++i)
    bound_place_[by_bound_[i]] = i;
}

/// Adds a variable to, or takes it from, those that grow at the beginning of a round.
void MaxMinSystem::count(std::uint32_t variable, std::size_t round, bool grows) {
  Room *room = rooms_.data() + round * capacity_.size();
  const double more = grows ? 1 : -1;
  for (const std::uint32_t c : elements(variable))
    room[c].growing += more;
}

/// Whether a variable that starts lowers the level of a round, or is frozen by it.
bool MaxMinSystem::changes(std::uint32_t variable, std::size_t round) const {
  const double level = rounds_[round].level * same_level;
  const Room *room = rooms_.data() + round * capacity_.size();
  const auto columns = elements(variable);
  return own_bound_[variable] <= level ||
         std::any_of(columns.begin(), columns.end(), [&](std::uint32_t c) {
           const auto uses = std::count(columns.begin(), columns.end(), c);
           return room[c].left <= level * (room[c].growing + static_cast<double>(uses));
         });
}

void MaxMinSystem::start(std::uint32_t variable) {
  if (elements(variable).empty()) { // nothing shared can stop it
    rate_[variable] = bound_[variable];
    limit_[variable] = bound_link_[variable];
    changed_.push_back(variable);
    return;
  }
  settle();
  for (std::size_t round = 0; round <= valid_; ++round) {
    if (round < valid_ && changes(variable, round))
      valid_ = round;
    count(variable, round, true);
    std::size_t &next = rounds_[round].next_bound;
    next = std::min<std::size_t>(next, bound_place_[variable]);
  }
  growing_[variable] = 1;
  ++to_freeze_;
}

void MaxMinSystem::finish(std::uint32_t variable) {
  if (elements(variable).empty())
    return;
  valid_ = std::min<std::size_t>(valid_, round_[variable]);
  for (std::size_t round = 0; round <= valid_; ++round)
    count(variable, round, false);
  round_[variable] = no_link; // not to be frozen again
}

std::span<const std::uint32_t> MaxMinSystem::fill() {
  resume();
  double level = valid_ > 0 ? rounds_[valid_ - 1].level : 0;
  for (std::size_t taken_out = capacity_.size(); to_freeze_ > 0;) {
    const std::size_t frozen_before = order_.size();
    const double share = smallest_share(taken_out);
    const double cap = smallest_bound();
    // Levels only rise; rounding must not let one fall, or a rate could become negative.
    level = std::max(level, std::min(share, cap));
    rounds_.back().level = level;
    freeze_at_bounds(level);
    if (share <= level * same_level)
      freeze_at_full_columns(level);
    begin_round(frozen_before);
    taken_out = order_.size() - frozen_before;
  }
  valid_ = rounds_.size() - 1;
  reported_.swap(changed_);
  changed_.clear();
  return reported_;
}

/// Back to the beginning of the first round that is not valid any more.
void MaxMinSystem::resume() {
  settle();
  const std::size_t first = rounds_[valid_].first;
  for (std::size_t i = first; i < order_.size(); ++i) {
    if (round_[order_[i]] == no_link)
      continue;
    growing_[order_[i]] = 1;
    ++to_freeze_;
  }
  order_.resize(first);
  unsettled_ = first;
  rounds_.resize(valid_ + 1);
  next_bound_ = rounds_[valid_].next_bound;
  at_ = valid_;
}

/// Takes out what was frozen; after the last round that is only needed if a variable starts and all
/// rounds stay valid. Beyond the most that are kept, what follows belongs to the last round.
void MaxMinSystem::begin_round(std::size_t frozen_before) {
  unsettled_ = frozen_before;
  if (to_freeze_ > 0)
    take_out();
  if (rounds_.size() < most_rounds_)
    rounds_.push_back({0, order_.size(), next_bound_});
}

/// Completes the state after the last round, if it still counts and is not there yet.
void MaxMinSystem::settle() {
  if (unsettled_ < order_.size() && rounds_[valid_].first == order_.size())
    take_out();
}

/// `taken_out`: how many of the latest frozen variables the shares do not know of yet. Where these
/// are few, only their columns have other shares now.
double MaxMinSystem::smallest_share(std::size_t taken_out) {
  const Room *const room = rooms_at(at_);
  if (taken_out * few_columns > shares_.size())
    return share_columns(room, shares_.size(), shares_.data());
  for (std::size_t i = order_.size() - taken_out; i < order_.size(); ++i) {
    for (const std::uint32_t c : elements(order_[i]))
      shares_[c] = share_of(room[c]);
  }
  return least_of(shares_);
}

double MaxMinSystem::smallest_bound() {
  while (next_bound_ < by_bound_.size() && growing_[by_bound_[next_bound_]] == 0)
    ++next_bound_;
  return next_bound_ < by_bound_.size() ? own_bound_[by_bound_[next_bound_]] : unlimited;
}

void MaxMinSystem::freeze_at_bounds(double level) {
  for (std::size_t i = next_bound_; i < by_bound_.size(); ++i) {
    const std::uint32_t v = by_bound_[i];
    if (own_bound_[v] > level * same_level)
      return;
    if (growing_[v] != 0)
      freeze(v, bound_[v], bound_link_[v]);
  }
}

/// Those that were full before any of them was frozen: freezing lowers what the others have left by
/// the level for each, so that a share found full stays full.
void MaxMinSystem::freeze_at_full_columns(double level) {
  const double *const shares = shares_.data();
  std::uint32_t *const full = full_.data();
  std::size_t count = 0;
  for (std::uint32_t c = 0; c < shares_.size(); ++c) { // no branch to guess wrong
    full[count] = c;
    count += shares[c] <= level * same_level ? 1U : 0U;
  }
  for (std::size_t i = 0; i < count; ++i)
    freeze_users(full[i], level);
}

void MaxMinSystem::freeze_users(std::uint32_t column, double level) {
  std::uint32_t *const first = users_.data() + users_begin_[column];
  std::uint32_t *const end = users_.data() + users_end_[column];
  std::uint32_t *kept = first;
  for (std::uint32_t *user = first; user != end; ++user) {
    const std::uint32_t v = *user;
    if (round_[v] == no_link)
      continue;
    *kept++ = v;
    if (growing_[v] == 0)
      continue;
    const bool alone = bound_[v] <= level * same_level; // it could be no faster without the others
    freeze(v, level, alone ? bound_link_[v] : column_link_[column]);
  }
  users_end_[column] = static_cast<std::uint32_t>(kept - users_.data());
}

void MaxMinSystem::freeze(std::uint32_t variable, double rate, std::uint32_t limit) {
  growing_[variable] = 0;
  round_[variable] = static_cast<std::uint32_t>(rounds_.size() - 1);
  order_.push_back(variable);
  --to_freeze_;
  limit_[variable] = limit;
  if (rate_[variable] != rate) {
    rate_[variable] = rate;
    changed_.push_back(variable);
  }
}

/// On to the next round, without what the latest frozen variables take of their columns.
void MaxMinSystem::take_out() {
  const std::size_t columns = capacity_.size();
  const std::size_t next = std::min(at_ + 1, most_rounds_);
  if (rooms_.size() < (next + 1) * columns)
    rooms_.resize((next + 1) * columns);
  Room *const room = rooms_at(next);
  if (next > at_)
    std::copy_n(rooms_at(at_), columns, room);
  at_ = next;
  for (; unsettled_ < order_.size(); ++unsettled_) {
    const std::uint32_t v = order_[unsettled_];
    const double rate = rate_[v];
    for (const std::uint32_t c : elements(v)) {
      room[c].left -= rate;
      room[c].growing -= 1;
    }
  }
}

} // namespace toposeat
