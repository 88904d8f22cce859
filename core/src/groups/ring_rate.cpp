// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/groups/ring_rate.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "groups/cut_bound.hpp"

namespace toposeat {

namespace {

using groups::CutBound;
using groups::tolerance;

using Ring = std::vector<std::uint32_t>;

double least_capacity(const GroupWiring &wiring, std::size_t route) {
  double least = wiring.flow_cap[route];
  for (const std::uint32_t use : wiring.uses_of(route))
    least = std::min(least, wiring.capacity[use]);
  return least;
}

/// Candidates of each member for the next place of a ring: by rate, then hops, then distance.
std::vector<Ring> orders_of(const GroupWiring &wiring) {
  const std::uint32_t n = wiring.members;
  std::vector<Ring> orders(n);
  for (std::uint32_t a = 0; a < n; ++a) {
    if (wiring.switched) {
      orders[a] = {(a + 1) % n, (a + n - 1) % n};
      continue;
    }
    for (std::uint32_t step = 1; step < n; ++step)
      orders[a].push_back((a + step) % n);
    const auto key = [&](std::uint32_t b) {
      const std::size_t route = a * n + b;
      return std::tuple(-least_capacity(wiring, route), wiring.uses_of(route).size(),
                        (b + n - a) % n);
    };
    std::sort(orders[a].begin(), orders[a].end(),
              [&](std::uint32_t b, std::uint32_t c) { return key(b) < key(c); });
  }
  return orders;
}

/// As many rings of one rate as fit, one after the other, by depth-first search.
class RingWalk {
public:
  RingWalk(const GroupWiring &wiring, const std::vector<Ring> &orders)
      : wiring_(wiring), orders_(orders), taken_(wiring.members) {
    whole_.resize(wiring.members);
    std::iota(whole_.begin(), whole_.end(), 0U);
  }

  /// At most so many rings at `rate` over paths of at most this class; alike or not.
  std::vector<Ring> find(double rate, std::uint8_t farthest, std::uint32_t most, bool alike,
                         std::int64_t steps) {
    most_ = most;
    rate_ = rate;
    farthest_ = farthest;
    alike_ = alike;
    steps_ = steps;
    left_ = wiring_.capacity;
    rings_.clear();
    best_.clear();
    if (!begin(0, &whole_))
      begin(0, nullptr);
    return best_;
  }

private:
  bool begin(std::uint32_t first, const Ring *as) {
    const Ring copy = as == nullptr ? Ring() : *as; // rings_ may grow below
    std::fill(taken_.begin(), taken_.end(), false);
    taken_[first] = true;
    Ring saved = std::move(path_);
    path_ = {first};
    const bool done = walk(as == nullptr ? nullptr : &copy);
    path_ = std::move(saved);
    std::fill(taken_.begin(), taken_.end(), false);
    for (const std::uint32_t member : path_)
      taken_[member] = true;
    return done;
  }

  /// Goes on from the end of the path. True: enough rings, or no steps left.
  bool walk(const Ring *as) {
    if (steps_-- <= 0)
      return true;
    const std::uint32_t here = path_.back();
    if (path_.size() == wiring_.members)
      return close(here);
    if (as != nullptr)
      return step(here, (*as)[path_.size()], as);
    return std::any_of(orders_[here].begin(), orders_[here].end(), [&](std::uint32_t next) {
      return !taken_[next] && step(here, next, nullptr);
    });
  }

  bool step(std::uint32_t here, std::uint32_t next, const Ring *as) {
    if (!charge(here, next))
      return false;
    path_.push_back(next);
    taken_[next] = true;
    const bool done = walk(as);
    path_.pop_back();
    taken_[next] = false;
    give_back(here, next);
    return done;
  }

  bool close(std::uint32_t here) {
    if (!charge(here, path_.front()))
      return false;
    rings_.push_back(path_);
    if (rings_.size() > best_.size())
      best_ = rings_;
    bool done = rings_.size() >= most_;
    if (!done) {
      const Ring same = rings_.back();
      done = begin(same.front(), &same) || (!alike_ && begin(0, nullptr));
    }
    rings_.pop_back();
    give_back(here, path_.front());
    return done;
  }

  bool charge(std::uint32_t a, std::uint32_t b) {
    const std::size_t route = a * wiring_.members + b;
    if (wiring_.path_class[route] > farthest_ || wiring_.flow_cap[route] < rate_ * (1 - tolerance))
      return false;
    const auto uses = wiring_.uses_of(route);
    for (std::size_t u = 0; u < uses.size(); ++u) {
      left_[uses[u]] -= rate_;
      if (left_[uses[u]] < -tolerance * wiring_.capacity[uses[u]]) {
        for (std::size_t v = 0; v <= u; ++v)
          left_[uses[v]] += rate_;
        return false;
      }
    }
    return true;
  }

  void give_back(std::uint32_t a, std::uint32_t b) {
    for (const std::uint32_t use : wiring_.uses_of(a * wiring_.members + b))
      left_[use] += rate_;
  }

  const GroupWiring &wiring_;
  const std::vector<Ring> &orders_;
  std::vector<bool> taken_;
  Ring whole_, path_;
  std::vector<double> left_;
  std::vector<Ring> rings_, best_;
  double rate_ = 0;
  std::uint8_t farthest_ = 0;
  std::uint32_t most_ = 0;
  bool alike_ = false;
  std::int64_t steps_ = 0;
};

std::vector<std::uint8_t> classes_of(const GroupWiring &wiring) {
  std::vector<std::uint8_t> classes;
  const std::uint32_t n = wiring.members;
  for (std::size_t route = 0; route < wiring.path_class.size(); ++route)
    if (route / n != route % n && wiring.path_class[route] != GroupWiring::no_path)
      classes.push_back(wiring.path_class[route]);
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  return classes;
}

/// One ring in the members' order at the rate that fits; where there is no path nothing flows.
RingRate ring_in_order(const GroupWiring &wiring) {
  const std::uint32_t n = wiring.members;
  std::vector<double> load(wiring.capacity.size());
  RingRate found;
  found.rings.emplace_back(n);
  std::iota(found.rings.front().begin(), found.rings.front().end(), 0U);
  for (std::uint32_t a = 0; a < n; ++a) {
    const std::size_t route = a * n + (a + 1) % n;
    if (wiring.path_class[route] == GroupWiring::no_path)
      found.bytes_per_s = 0;
    found.bytes_per_s = std::min(found.bytes_per_s, wiring.flow_cap[route]);
    for (const std::uint32_t use : wiring.uses_of(route))
      load[use] += 1;
  }
  for (std::size_t r = 0; r < load.size(); ++r)
    if (load[r] > 0)
      found.bytes_per_s = std::min(found.bytes_per_s, wiring.capacity[r] / load[r]);
  return found;
}

} // namespace

void GroupWiring::validate() const {
  const std::size_t routes = static_cast<std::size_t>(members) * members;
  const bool fits = members >= 1 && route_begin.size() == routes + 1 && flow_cap.size() == routes &&
                    path_class.size() == routes && route_begin.front() == 0 &&
                    route_begin.back() == uses.size() &&
                    std::is_sorted(route_begin.begin(), route_begin.end()) &&
                    std::all_of(uses.begin(), uses.end(),
                                [&](std::uint32_t use) { return use < capacity.size(); });
  if (!fits)
    throw std::invalid_argument("the arrays of a group do not fit each other");
}

RingRate ring_rate(const GroupWiring &wiring, const RingSearch &search) {
  wiring.validate();
  RingRate best;
  if (wiring.members < 2)
    return best;
  CutBound cuts(wiring);
  const double bound = cuts.least();
  const std::vector<Ring> orders = orders_of(wiring);
  const std::vector<std::uint8_t> classes = classes_of(wiring);
  RingWalk walk(wiring, orders);
  double level = 0;                             // of the best rings
  std::uint8_t farthest = GroupWiring::no_path; // class of their paths
  best.bytes_per_s = 0;
  const auto gains = [&](double sum) { return sum > best.bytes_per_s * (1 + tolerance); };
  for (const double rate : search.levels) {
    if (best.bytes_per_s >= bound * (1 - tolerance) ||
        (level > 0 &&
         (rate <= search.stop_below * level || rate * search.most_rings < best.bytes_per_s)))
      break;
    if (!gains(std::floor(bound / rate + tolerance) * rate))
      continue;
    // Paths farther than those of the best rings are not taken for more of lesser rings.
    for (std::size_t c = 0; c < classes.size() && (c == 0 || classes[c - 1] < farthest); ++c) {
      const double fits = std::floor(cuts.least(rate, classes[c]) / rate + tolerance);
      const auto most = static_cast<std::uint32_t>(std::min<double>(search.most_rings, fits));
      if (!gains(rate * most))
        continue;
      for (const bool alike : {true, false}) {
        auto rings =
            walk.find(rate, classes[c], most, alike, alike ? search.steps_of_same : search.steps);
        const auto count = rings.size();
        if (const double sum = rate * static_cast<double>(count); gains(sum)) {
          best.bytes_per_s = sum;
          best.rings = std::move(rings);
          level = rate;
          farthest = classes[c];
        }
        if (count == most)
          break;
      }
    }
  }
  if (best.rings.empty())
    best = ring_in_order(wiring);
  best.cut_bytes_per_s = std::max(bound, best.bytes_per_s);
  return best;
}

} // namespace toposeat
