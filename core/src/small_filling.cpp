// SPDX-License-Identifier: MIT OR Apache-2.0
#include "small_filling.hpp"

#include <algorithm>

#include "toposeat/flow.hpp"

namespace toposeat {
namespace {

// Levels this near to each other are one level: it keeps equal shares, which rounding splits, in
// one round of the filling.
constexpr double same_level = 1 + 1e-12;

constexpr std::size_t searched_kinds = 8; // more are sorted

} // namespace

template <std::size_t Words> void SmallFilling<Words>::reset(std::size_t flows) {
  for (const std::uint32_t each : touched())
    used_[each].clear();
  touched_count_ = 0;
  flows_.clear();
  flows_.reserve(flows);
  lower_bound_ = 0;
}

template <std::size_t Words>
void SmallFilling<Words>::add(double volume, double start, double cap,
                              const PairConstraints::Pair *pair) {
  const auto number = static_cast<std::uint32_t>(flows_.size());
  Flow flow{volume, cap, unlimited, no_link, nullptr, 0};
  if (pair != nullptr) {
    if (pair->narrowest < cap) {
      flow.bound = pair->narrowest;
      flow.bound_link = pair->narrowest_link;
    }
    flow.pair = pair;
    know_constraints();
    std::uint32_t *const touched = touched_.data();
    std::size_t count = touched_count_;
    for (const std::uint32_t c : constraints_.elements(*pair)) {
      Constraint &each = used_[c];
      touched[count] = c; // no branch to guess wrong
      count += each.users.empty() ? 1U : 0U;
      each.volume += volume;
      each.demand += flow.bound;
      each.earliest = start < each.earliest ? start : each.earliest;
      each.users.insert(number);
    }
    touched_count_ = count;
  }
  lower_bound_ = std::max(lower_bound_, start + volume / flow.bound);
  flows_.push_back(flow);
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
  choose_columns();
  find_own_bounds();
  list_kinds();
  const std::size_t flows = flows_.size();
  rates_.assign(flows, 0);
  round_.resize(flows);
  keep_rounds(1);
  std::copy(capacity_.begin(), capacity_.end(), left_.begin());
  rounds_[0] = {0, {}, static_cast<std::uint32_t>(kinds_.size())};
  running_ = {};
  changed_.clear();
  last_ = 0;
  valid_ = 0;
  settled_ = true;
}

/// A constraint that its flows together cannot fill, even each at the rate it has alone, stops
/// nothing: most links of a machine, in particular those with a single flow.
template <std::size_t Words> void SmallFilling<Words>::choose_columns() {
  users_.clear();
  capacity_.clear();
  column_link_.clear();
  stoppable_ = {};
  for (const std::uint32_t number : touched()) {
    Constraint &each = used_[number];
    lower_bound_ = std::max(lower_bound_, each.earliest + each.volume / each.capacity);
    if (each.demand <= each.capacity)
      continue;
    each.column = static_cast<std::uint32_t>(users_.size());
    users_.push_back(each.users);
    stoppable_ = stoppable_ | each.users;
    capacity_.push_back(each.capacity);
    column_link_.push_back(constraints_.known()[number].link);
  }
  while (users_.size() % column_block != 0) { // used by no flow: never full
    users_.emplace_back();
    capacity_.push_back(1);
  }
  columns_ = users_.size();
  shares_.resize(columns_);
  counts_.resize(columns_);
  counts_before_.resize(columns_);
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
  for (std::uint32_t k = 0; k < kinds_.size(); ++k)
    kinds_[k].flows.for_each([&](std::uint32_t flow) { flows_[flow].kind = k; });
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
            [](const Kind &a, const Kind &b) { return a.bound < b.bound; });
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

/// Memory for the beginning of so many rounds.
template <std::size_t Words> void SmallFilling<Words>::keep_rounds(std::size_t rounds) {
  if (rounds_.size() < rounds)
    rounds_.resize(rounds);
  if (left_.size() < rounds * columns_)
    left_.resize(rounds * columns_);
}

/// Completes the state after the last round, which matters only if all rounds stay valid.
template <std::size_t Words> void SmallFilling<Words>::settle() {
  if (settled_ || valid_ < last_)
    return;
  kernel_.advance(kernel_columns(), {}, rounds_[last_ - 1].level, left_at(last_ - 1),
                  left_at(last_));
  settled_ = true;
}

/// Whether a flow that starts lowers the level of a round, or is frozen by it.
template <std::size_t Words>
bool SmallFilling<Words>::changes(const Flow &flow, std::size_t round) {
  const double level = rounds_[round].level * same_level;
  if (flow.own_bound <= level)
    return true;
  const Set growing = running_.without(rounds_[round].frozen_before);
  const double *const left = left_at(round);
  const auto constraints = constraints_.elements(*flow.pair);
  return std::any_of(constraints.begin(), constraints.end(), [&](std::uint32_t c) {
    const std::uint32_t column = used_[c].column;
    return column != no_link &&
           left[column] <= level * static_cast<double>((users_[column] & growing).size() + 1);
  });
}

template <std::size_t Words> void SmallFilling<Words>::start(std::uint32_t number) {
  const Flow &flow = flows_[number];
  if (!stoppable_.has(number)) {
    rates_[number] = flow.bound;
    changed_.push_back(number);
    return;
  }
  settle();
  const bool bounded = flow.own_bound < unlimited;
  for (std::size_t round = 0; round <= valid_; ++round) {
    if (round < valid_ && changes(flow, round))
      valid_ = round;
    if (bounded)
      rounds_[round].next_kind = std::min(rounds_[round].next_kind, flow.kind);
  }
  running_.insert(number);
}

template <std::size_t Words> void SmallFilling<Words>::finish(std::uint32_t number) {
  if (!stoppable_.has(number))
    return;
  valid_ = std::min<std::size_t>(valid_, round_[number]);
  running_.remove(number);
}

template <std::size_t Words> std::span<const std::uint32_t> SmallFilling<Words>::fill() {
  settled_ = settled_ || valid_ < last_;
  filled_ = running_;
  at_ = valid_;
  next_kind_ = rounds_[at_].next_kind;
  Set growing = running_.without(rounds_[at_].frozen_before);
  const FillColumns<Words> columns = kernel_columns();
  double level = at_ > 0 ? rounds_[at_ - 1].level : 0;
  double share = 0;
  if (!growing.empty())
    share = kernel_.enter(columns, growing, left_at(at_));
  while (!growing.empty()) {
    const Set before = growing;
    // Levels only rise; rounding must not let one fall, or a rate could become negative.
    level = std::max(level, std::min(share, smallest_bound(growing)));
    rounds_[at_].level = level;
    freeze_at_bounds(growing, level);
    if (share <= level * same_level) {
      const Set stopped = kernel_.users_of_full(columns, level * same_level);
      freeze(stopped & growing, level);
      growing = growing.without(stopped);
    }
    keep_rounds(at_ + 2);
    rounds_[at_ + 1] = {0, rounds_[at_].frozen_before | before.without(growing), next_kind_};
    settled_ = !growing.empty();
    if (settled_)
      share = kernel_.advance(columns, growing, level, left_at(at_), left_at(at_ + 1));
    ++at_;
  }
  last_ = at_;
  valid_ = at_;
  reported_.swap(changed_);
  changed_.clear();
  return reported_;
}

template <std::size_t Words> double SmallFilling<Words>::smallest_bound(const Set &growing) {
  while (next_kind_ < kinds_.size() && (kinds_[next_kind_].flows & growing).empty())
    ++next_kind_;
  return next_kind_ < kinds_.size() ? kinds_[next_kind_].bound : unlimited;
}

template <std::size_t Words>
void SmallFilling<Words>::freeze_at_bounds(Set &growing, double level) {
  for (std::size_t k = next_kind_; k < kinds_.size(); ++k) {
    const Kind &kind = kinds_[k];
    if (kind.bound > level * same_level)
      return;
    freeze(kind.flows & growing, kind.bound);
    growing = growing.without(kind.flows);
  }
}

template <std::size_t Words> void SmallFilling<Words>::freeze(const Set &flows, double rate) {
  flows.for_each([&](std::uint32_t flow) {
    round_[flow] = static_cast<std::uint32_t>(at_);
    if (rates_[flow] != rate) {
      rates_[flow] = rate;
      changed_.push_back(flow);
    }
  });
}

template <std::size_t Words> std::uint32_t SmallFilling<Words>::limit(std::uint32_t number) const {
  const Flow &flow = flows_[number];
  // Where a column was full at the rate that the flow has alone, that is what stopped it.
  if (!stoppable_.has(number) || flow.bound <= rates_[number] * same_level)
    return flow.bound_link;
  const std::size_t round = round_[number];
  const double level = rounds_[round].level * same_level;
  const double *const left = left_.data() + round * columns_;
  const Set growing = filled_.without(rounds_[round].frozen_before);
  for (std::size_t c = 0; c < column_link_.size(); ++c) {
    if (users_[c].has(number) && left[c] <= level * (users_[c] & growing).size())
      return column_link_[c];
  }
  return no_link;
}

template class SmallFilling<1>;
template class SmallFilling<2>;
template class SmallFilling<4>;

} // namespace toposeat
