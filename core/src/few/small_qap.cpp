// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/few/small_qap.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "few/cheapest_first.hpp"
#include "few/orbit_leaders.hpp"
#include "few/small_costs.hpp"
#include "loads/rank_twins.hpp"
#include "problem/qap_symmetry.hpp"

namespace toposeat {
namespace {

class SmallSearch {
public:
  SmallSearch(std::unique_ptr<SmallCosts> costs, const Assignment &incumbent, double upper)
      : costs_(std::move(costs)), prepared_(costs_->prepared()), best_(incumbent),
        best_cost_(qap_cost(prepared_.qap, incumbent)) {
    const double limit = limit_below(upper);
    found_ = best_cost_ <= limit;
    best_cost_ = std::min(best_cost_, limit);
  }

  /// Of placements that symmetries make of each other one is enough; those of the machine are
  /// looked for at the first levels.
  void spare(OrbitLeaders &leaders, std::size_t levels) {
    leaders_ = &leaders;
    symmetric_levels_ = levels;
  }

  /// Parts that may have placements which cost less are kept.
  void list_below(double cost) { listed_below_ = prepared_.prepared(cost); }

  BoundedAnswer run() {
    OpenPart all;
    all.symmetric = leaders_ != nullptr;
    explore(all, 0, costs_->nothing_placed());
    const double value =
        found_ ? qap_cost(costs_->original(), best_) : prepared_.original(best_cost_);
    return {best_, value, value, true};
  }

  /// Whether some devices were not tried because of symmetries of the machine.
  [[nodiscard]] bool spared() const { return spared_; }

  /// All that was ruled out.
  std::vector<OpenPart> &listed() { return listed_; }
  std::unique_ptr<SmallCosts> &costs() { return costs_; }

private:
  struct Child {
    OpenPart part;
    double placed; // cost
    SmallTable linear;
  };

  /// Least cost that a placement can have without being below `upper`.
  double limit_below(double upper) const {
    const double limit = prepared_.prepared(upper);
    if (!(limit < unlimited) || !(prepared_.step > 0))
      return limit;
    return std::ceil(limit / prepared_.step - 1e-6) * prepared_.step;
  }

  double prunes_at() const {
    if (prepared_.step > 0)
      return best_cost_ - prepared_.step + 1e-3;
    return best_cost_ - 1e-10 * prepared_.original(best_cost_) / prepared_.scale;
  }

  void list(const OpenPart &part) {
    if (part.bound < listed_below_)
      listed_.push_back(part);
  }

  /// `linear`: see SmallCosts::place; `placed`: what the ranks placed cost.
  void explore(OpenPart here, double placed, const SmallTable &linear) {
    const std::size_t depth = here.placed;
    if (costs_->four_left(depth)) {
      seat_last_four(here, placed, linear);
      return;
    }
    if (depth == costs_->order().size()) {
      list(here);
      record(placed);
      return;
    }
    std::array<Child, SmallCosts::width> children;
    std::array<std::size_t, SmallCosts::width> by_bound{};
    std::size_t count = 0;
    for (std::uint32_t open = candidates(here, linear[depth]); open != 0; open &= open - 1) {
      Child &child = children[count];
      const auto device = static_cast<std::size_t>(std::countr_zero(open));
      child.placed = placed + linear[depth][device];
      const double bound = child.placed + costs_->place(depth, device, linear, child.linear);
      child.part = here.with(bound, depth, device);
      if (bound > prunes_at()) {
        list(child.part);
        continue;
      }
      std::size_t place = count++; // few enough to insert in order
      for (; place > 0 && children[by_bound[place - 1]].part.bound > bound; --place)
        by_bound[place] = by_bound[place - 1];
      by_bound[place] = count - 1;
    }
    for (std::size_t i = 0; i < count; ++i) {
      const Child &child = children[by_bound[i]];
      if (child.part.bound > prunes_at()) {
        list(child.part);
        continue;
      }
      here_[depth] = child.part.device(depth);
      explore(child.part, child.placed, child.linear);
    }
  }

  /// Open devices, as a set, that are to be tried.
  std::uint32_t candidates(OpenPart &here, const DeviceLine &linear) {
    std::uint32_t open = 0;
    for (std::uint32_t d = 0; d < SmallCosts::width; ++d)
      open |= linear[d] < unlimited ? 1U << d : 0U;
    if (leaders_ == nullptr)
      return open;
    const auto fixed = std::span(here_).first(here.placed);
    std::uint32_t chosen = open;
    if (here.symmetric && here.placed < symmetric_levels_)
      chosen = leaders_->least(fixed, open, here.symmetric);
    spared_ = spared_ || chosen != open;
    return chosen & leaders_->above_twins(fixed, here.placed);
  }

  void record(double cost) {
    if (!(cost <= prunes_at()))
      return;
    best_ = costs_->whole(here_);
    best_cost_ = cost;
    found_ = true;
  }

  /// All ways of the last four ranks on the devices that are left.
  void seat_last_four(const OpenPart &here, double placed, const SmallTable &linear) {
    const FourDevices devices = costs_->left_by(here_);
    const Ways costs = costs_->of_ways(placed, linear, devices);
    const auto least = std::min_element(costs.begin(), costs.end());
    OpenPart left = here;
    left.bound = *least;
    list(left);
    if (!(*least <= prunes_at()))
      return;
    const auto way = static_cast<std::size_t>(least - costs.begin());
    for (std::size_t k = 0; k < last_ranks; ++k)
      here_[here.placed + k] = devices[last_seat(way, k)];
    record(*least);
  }

  std::unique_ptr<SmallCosts> costs_;
  const PreparedQap &prepared_;
  Assignment best_;
  double best_cost_;
  bool found_ = false; // `best_` has that cost
  OrbitLeaders *leaders_ = nullptr;
  std::size_t symmetric_levels_ = 0;
  bool spared_ = false;
  SmallCosts::Devices here_{};
  double listed_below_ = -unlimited;
  std::vector<OpenPart> listed_;
};

constexpr std::size_t proof_levels = 2; // at which symmetries of the costs are looked for

std::unique_ptr<SmallCosts> costs_of(const Qap &qap) {
  if (qap.size() > max_small_devices)
    throw std::invalid_argument("too many devices to enumerate");
  return std::make_unique<SmallCosts>(qap);
}

bool restricted(const Qap &qap) {
  return !qap.allowed.empty() || std::any_of(qap.pinned.begin(), qap.pinned.end(),
                                             [](auto pin) { return pin != Qap::no_pin; });
}

OrbitLeaders of_machine(const SmallCosts &costs) {
  return {Symmetry(machine_colours(costs.prepared().qap)),
          std::vector<std::uint32_t>(costs.order().size(), 0)};
}

BoundedAnswer proved(SmallSearch &search, const SmallCosts &costs) {
  OrbitLeaders leaders = of_machine(costs);
  if (!restricted(costs.original()))
    search.spare(leaders, proof_levels);
  return search.run();
}

} // namespace

BoundedAnswer solve_small_qap(const Qap &qap, const Assignment &incumbent, double upper) {
  SmallSearch search(costs_of(qap), incumbent, upper);
  return proved(search, *search.costs());
}

SmallProof prove_small_qap(const Qap &qap, const LoadProblem &problem, const Assignment &incumbent,
                           double below) {
  SmallSearch search(costs_of(qap), incumbent, unlimited);
  search.list_below(below);
  SmallProof proof{proved(search, *search.costs()), nullptr};
  if (!search.spared())
    proof.others = std::make_unique<CheapestFirst>(problem, std::move(search.costs()),
                                                   std::move(search.listed()), below);
  return proof;
}

CheapestFirst cheapest_first(const Qap &qap, const LoadProblem &problem, const Assignment &optimum,
                             double below) {
  SmallSearch search(costs_of(qap), optimum, unlimited);
  search.list_below(below);
  OrbitLeaders leaders(Symmetry(problem.network, machine_colours(qap)),
                       later_twins(problem, search.costs()->order(), qap.active));
  search.spare(leaders, qap.allowed.empty() ? small_width : 0);
  search.run();
  CheapestFirst all(problem, std::move(search.costs()), std::move(search.listed()), below);
  all.spare(std::move(leaders));
  return all;
}

} // namespace toposeat
