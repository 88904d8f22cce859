// SPDX-License-Identifier: MIT OR Apache-2.0
#include "flow/small_filling.hpp"

#include <algorithm>

#include "flow/phase_walk.hpp"
#include "toposeat/flow/flow.hpp"

namespace toposeat {
namespace {

constexpr std::size_t searched_kinds = 8; // more are sorted

} // namespace

template <std::size_t Words> void SmallFilling<Words>::reset(std::size_t flows, bool bounded) {
  for (const std::uint32_t each : touched())
    used_[each].clear();
  touched_count_ = 0;
  flows_.resize(flows);
  added_ = 0;
  bounded_time_ = bounded;
  lower_bound_ = 0;
}

template <std::size_t Words>
void SmallFilling<Words>::add(double volume, double start, double cap,
                              const PairConstraints::Pair *pair) {
  const std::uint32_t number = added_++;
  Flow &flow = flows_[number]; // written where it stays: a copy would have to wait for its parts
  flow.bound = cap;
  flow.own_bound = unlimited;
  flow.bound_link = no_link;
  flow.pair = pair;
  if (pair != nullptr) {
    if (pair->narrowest < cap) {
      flow.bound = pair->narrowest;
      flow.bound_link = pair->narrowest_link;
    }
    know_constraints();
    std::uint32_t *const touched = touched_.data();
    std::size_t count = touched_count_;
    const double bound = flow.bound;
    for (const std::uint32_t c : constraints_.elements(*pair)) {
      Constraint &each = used_[c];
      touched[count] = c; // no branch to guess wrong
      count += each.users.empty() ? 1U : 0U;
      each.demand += bound;
      each.users.insert(number);
    }
    touched_count_ = count;
  }
  if (bounded_time_)
    add_volume(volume, start, flow);
}

/// What the lower bound needs to know of a flow.
template <std::size_t Words>
void SmallFilling<Words>::add_volume(double volume, double start, const Flow &flow) {
  lower_bound_ = std::max(lower_bound_, start + volume / flow.bound);
  if (flow.pair == nullptr)
    return;
  for (const std::uint32_t c : constraints_.elements(*flow.pair)) {
    Constraint &each = used_[c];
    each.volume += volume;
    each.earliest = start < each.earliest ? start : each.earliest;
  }
}

/// Makes room for those that looking up the latest pair has added.
template <std::size_t Words> void SmallFilling<Words>::know_constraints() {
  const auto &known = constraints_.known();
  if (used_.size() == known.size())
    return;
  for (std::size_t c = used_.size(); c < known.size(); ++c) {
    used_.emplace_back();
    used_.back().capacity = known[c].capacity;
  }
  touched_.resize(known.size() + 1);
}

template <std::size_t Words> void SmallFilling<Words>::close() {
  if (bounded_time_) {
    for (const std::uint32_t number : touched()) {
      const Constraint &each = used_[number];
      lower_bound_ = std::max(lower_bound_, each.earliest + each.volume / each.capacity);
    }
  }
  choose_columns();
  find_own_bounds();
  list_kinds();
  begin();
}

/// A constraint that its flows together cannot fill, even each at the rate it has alone, stops
/// nothing: most links of a machine, in particular those with a single flow.
template <std::size_t Words> void SmallFilling<Words>::choose_columns() {
  const std::size_t most = whole_lanes(touched_count_);
  users_.fit(most * Words);
  for (auto *each : {&left_, &ends_, &paces_})
    each->fit(most);
  column_link_.clear();
  stoppable_ = {};
  std::size_t count = 0;
  const auto append = [&](const Set &users, double capacity, double volume) {
    for (std::size_t w = 0; w < Words; ++w)
      users_[w * most + count] = users.words[w];
    if (bounded_time_) {
      paces_[count] = 1 / capacity;
      ends_[count] = volume / capacity;
    }
    left_[count++] = capacity;
  };
  for (const std::uint32_t number : touched()) {
    Constraint &each = used_[number];
    if (each.demand <= each.capacity)
      continue;
    each.column = static_cast<std::uint32_t>(count);
    stoppable_ = stoppable_ | each.users;
    append(each.users, each.capacity, each.volume);
    column_link_.push_back(constraints_.known()[number].link);
  }
  while (count % most_lanes != 0)
    append({}, 1, 0); // used by no flow: never full
  state_.columns = count;
  for (std::size_t w = 0; w < Words; ++w)
    state_.users[w] = users_.data() + w * most;
}

/// The bound of each flow as far as no column is as narrow.
template <std::size_t Words> void SmallFilling<Words>::find_own_bounds() {
  bounded_.clear();
  stoppable_.for_each([&](std::uint32_t number) {
    Flow &flow = flows_[number];
    const auto is_column = [&](std::uint32_t c) { return used_[c].column != no_link; };
    if (flow.bound == flow.pair->narrowest) {
      const auto narrow = constraints_.narrow_elements(*flow.pair);
      if (std::any_of(narrow.begin(), narrow.end(), is_column))
        return;
    }
    flow.own_bound = flow.bound;
    bounded_.push_back(number);
  });
}

template <std::size_t Words> void SmallFilling<Words>::list_kinds() {
  kinds_.clear();
  if (!few_kinds())
    many_kinds();
}

/// False, with nothing done, if there are more than are worth a search for each flow.
template <std::size_t Words> bool SmallFilling<Words>::few_kinds() {
  for (const std::uint32_t number : bounded_) {
    const double bound = flows_[number].own_bound;
    std::size_t k = 0;
    while (k < kinds_.size() && kinds_[k].bound != bound)
      ++k;
    if (k == searched_kinds) {
      kinds_.clear();
      return false;
    }
    if (k == kinds_.size())
      kinds_.push_back({bound, {}});
    kinds_[k].flows.insert(number);
  }
  std::sort(kinds_.begin(), kinds_.end(),
            [](const auto &a, const auto &b) { return a.bound < b.bound; });
  return true;
}

template <std::size_t Words> void SmallFilling<Words>::many_kinds() {
  own_bounds_.clear();
  for (const Flow &flow : flows_)
    own_bounds_.push_back(flow.own_bound);
  sorter_.sort(bounded_, own_bounds_);
  for (const std::uint32_t number : bounded_) {
    if (kinds_.empty() || kinds_.back().bound != own_bounds_[number])
      kinds_.push_back({own_bounds_[number], {}});
    kinds_.back().flows.insert(number);
  }
}

/// No flow runs, and no round is filled.
template <std::size_t Words> void SmallFilling<Words>::begin() {
  const std::size_t most_rounds = flows_.size() + 1; // each but the last freezes a flow
  left_.fit(most_rounds * state_.columns);
  if (rounds_.size() < most_rounds)
    rounds_.resize(most_rounds);
  for (auto *each : {&growing_, &shares_})
    each->fit(state_.columns);
  rates_.fit(Set::most);
  std::fill_n(rates_.data(), flows_.size(), 0.0);
  rounds_[0] = {};
  running_ = {};
  started_ = {};
  last_ = 0;
  valid_ = 0;
  settled_ = true;
  state_.left = left_.data();
  state_.growing = growing_.data();
  state_.shares = shares_.data();
  state_.ends = ends_.data();
  state_.paces = paces_.data();
  state_.kinds = kinds_.data();
  state_.kind_count = kinds_.size();
  state_.rounds = rounds_.data();
  state_.rates = rates_.data();
}

template <std::size_t Words> void SmallFilling<Words>::start(const Set &flows) {
  flows.without(stoppable_).for_each([&](std::uint32_t flow) {
    rates_[flow] = flows_[flow].bound; // nothing shared can stop it
  });
  const Set stoppable = flows & stoppable_;
  started_ = started_ | stoppable;
  running_ = running_ | stoppable;
}

/// They were growing, and stopped nothing, in all rounds before their own: these stay.
template <std::size_t Words> void SmallFilling<Words>::finish(const Set &flows) {
  const Set stoppable = flows & stoppable_;
  std::size_t round = 0;
  while (round < valid_ && (rounds_[round + 1].frozen_before & stoppable).empty())
    ++round;
  valid_ = round;
  running_ = running_.without(stoppable);
}

template <std::size_t Words>
typename SmallFilling<Words>::Filling SmallFilling<Words>::begin_filling() {
  if (!started_.empty()) {
    if (!settled_ && valid_ == last_)
      EventKernel<Words>::settle(state_, last_);
    valid_ = EventKernel<Words>::unchanged(state_, running_, started_, valid_);
    for (std::size_t round = 0; round <= valid_; ++round)
      rounds_[round].next_kind = 0;
    started_ = {};
  }
  filled_ = running_;
  const Set growing = running_.without(rounds_[valid_].frozen_before);
  settled_ = growing.empty() && (settled_ || valid_ < last_);
  return {state_, growing, valid_};
}

template <std::size_t Words> double SmallFilling<Words>::lower_bound_after(double seconds) {
  // All that grow in the last round freeze in it.
  const std::size_t round = settled_ ? last_ : last_ - 1;
  return EventKernel<Words>::put_off(state_, round, settled_ ? 0 : rounds_[round].level, seconds);
}

template <std::size_t Words> void SmallFilling<Words>::idle(double seconds) {
  EventKernel<Words>::put_off(state_, 0, 0,
                              seconds); // at the beginning of its first round, all is left
}

template <std::size_t Words> std::uint32_t SmallFilling<Words>::limit(std::uint32_t number) const {
  const Flow &flow = flows_[number];
  // Where a column was full at the rate that the flow has alone, that is what stopped it.
  if (!stoppable_.has(number) || flow.bound <= rates_[number] * same_level)
    return flow.bound_link;
  std::size_t round = 0;
  while (!rounds_[round + 1].frozen_before.has(number))
    ++round;
  const double level = rounds_[round].level * same_level;
  const double *const left = state_.left_at(round);
  const Set growing = filled_.without(rounds_[round].frozen_before);
  for (std::size_t c = 0; c < column_link_.size(); ++c) {
    Set users;
    for (std::size_t w = 0; w < Words; ++w)
      users.words[w] = state_.users[w][c];
    if (users.has(number) && left[c] <= level * (users & growing).size())
      return column_link_[c];
  }
  return no_link;
}

template class SmallFilling<1>;
template class SmallFilling<2>;
template class SmallFilling<4>;

} // namespace toposeat
