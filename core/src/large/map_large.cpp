// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/large/map_large.hpp"

#include <algorithm>
#include <ctime>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "base/rng.hpp"
#include "division/multisection.hpp"
#include "large/large_candidates.hpp"
#include "large/slot_refinement.hpp"
#include "toposeat/problem/qap.hpp"

namespace toposeat {
namespace {

inline double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

} // namespace

namespace {

constexpr double worth_refining = 1.2; // times the least cost so far: swaps gain no more than that
constexpr std::size_t most_refined = 2;
constexpr double orders_share = 0.4; // of the budget: a search gets the rest

class LargeMapping {
public:
  explicit LargeMapping(const LargeRequest &request)
      : request_(request), ranks_(request.traffic->ranks),
        deadline_(Deadline::in(request.budget_s, request.stop)) {
    check();
    graph_ = rank_graph(*request.traffic, ranks_);
    tree_ = tree_of(*request.machine);
  }

  LargeAnswer run() {
    std::vector<std::uint32_t> identity(ranks_);
    std::iota(identity.begin(), identity.end(), 0U);
    began_ = thread_seconds();
    add("default", std::move(identity));
    collect();
    answer_.chosen = choose();
    answer_.device_of_rank = answer_.placed().slot_of_rank;
    answer_.value = primary(answer_.placed());
    answer_.solver = answer_.placed().name;
    answer_.kept_default = answer_.chosen == 0;
    answer_.interrupted = deadline_.stopped();
    if (answer_.interrupted)
      answer_.notes.emplace_back("interrupted: the best placement so far");
    return std::move(answer_);
  }

private:
  void check() const {
    if (request_.method == Method::exact)
      throw std::invalid_argument("nothing is proved of a machine of computed distances");
    if (ranks_ > slots_of(*request_.machine))
      throw std::invalid_argument(std::to_string(ranks_) + " ranks do not fit on " +
                                  std::to_string(slots_of(*request_.machine)) + " slots");
    for (const Assignment &given : request_.given) {
      std::vector<bool> taken(slots_of(*request_.machine), false);
      if (given.size() != ranks_)
        throw std::invalid_argument("a given placement is not one of these ranks");
      for (const std::uint32_t slot : given) {
        if (slot >= taken.size() || taken[slot])
          throw std::invalid_argument("a given placement uses a slot twice, or one too many");
        taken[slot] = true;
      }
    }
  }

  void tell(const std::string &stage, double share) const {
    if (request_.progress)
      request_.progress(stage, share);
  }

  /// Takes a finished placement in, with the CPU time since the one before; one that is there
  /// already only gives it another name.
  void add(const std::string &name, Assignment placement) {
    const double now = thread_seconds();
    for (LargeCandidate &each : answer_.candidates) {
      if (each.slot_of_rank == placement) {
        each.also.push_back(name);
        began_ = thread_seconds();
        return;
      }
    }
    LargeCandidate candidate{
        name, large_cost(graph_, *request_.machine, placement), {}, now - began_, {}, {}};
    // Links matter for choosing by time; by cost alone, only those of the winner are looked at.
    if (request_.objective != Objective::cost)
      candidate.prediction = predict(*request_.traffic, *request_.machine, placement);
    candidate.slot_of_rank = std::move(placement);
    answer_.candidates.push_back(std::move(candidate));
    began_ = thread_seconds();
  }

  void collect() {
    switch (request_.method) {
    case Method::keep_default:
      return;
    case Method::random:
      add("random", random_placement());
      return;
    case Method::automatic:
    case Method::exact:
    case Method::search:
      break;
    }
    for (const Assignment &given : request_.given)
      add("given", given);
    add_orders();
    if (!deadline_.expired())
      add_multilevel();
    add_refined();
    if (has_room() && !deadline_.expired())
      add_spread();
  }

  /// Whether ranks that do not lie as near as they can may have more of the links: where a quarter
  /// more slots are there than ranks, and nearness alone is not asked for.
  [[nodiscard]] bool has_room() const {
    return request_.objective != Objective::cost &&
           std::uint64_t{4} * slots_of(*request_.machine) >= std::uint64_t{5} * ranks_;
  }

  /// The same orders, and a division, on slots spread over the whole machine.
  void add_spread() {
    tell("spread", 0);
    const SlotTree thin = thinned(tree_, ranks_);
    const TakePlacement take = [&](const std::string &name, Assignment placement) {
      add("spread" + (name.empty() ? "" : ", " + name), std::move(placement));
      return !deadline_.expired();
    };
    if (!take("", thin.order) ||
        (grid_ && !grid_placements(*grid_, *request_.machine, thin, ranks_, take)))
      return;
    take("multilevel", multisection(graph_, thin, request_.seed,
                                    regular_ ? Effort::quick : Effort::thorough, deadline_));
  }

  void add_orders() {
    tell("orders", 0);
    const Deadline until = deadline_.within(orders_share * request_.budget_s);
    const TakePlacement take = [&](const std::string &name, Assignment placement) {
      add(name, std::move(placement));
      return !until.expired();
    };
    bool all = take_grid(until, take);
    all = machine_orders(*request_.machine, ranks_, take) && all;
    if (!all)
      answer_.notes.emplace_back("there was no time to look at every geometric order");
  }

  /// Placements by where ranks lie in a process grid, if there is one. False if time ended it.
  bool take_grid(const Deadline &until, const TakePlacement &take) {
    grid_ = recognise_grid(graph_, until);
    began_ = thread_seconds();
    if (until.expired())
      return false;
    regular_ = grid_ && grid_->full;
    if (!grid_)
      return true;
    std::string shape;
    for (const std::uint32_t extent : grid_->extents)
      shape.append(shape.empty() ? "" : "x").append(std::to_string(extent));
    if (regular_)
      answer_.notes.push_back("the traffic is that of the process grid " + shape);
    return grid_placements(*grid_, *request_.machine, tree_, ranks_, take);
  }

  void add_multilevel() {
    tell("multilevel", 0);
    const auto cheaper = [](const LargeCandidate &a, const LargeCandidate &b) {
      return a.cost < b.cost;
    };
    const auto cheapest =
        std::min_element(answer_.candidates.begin(), answer_.candidates.end(), cheaper);
    Assignment placement = multisection(
        graph_, tree_, request_.seed, regular_ ? Effort::quick : Effort::thorough, deadline_,
        [&](double share) { tell("multilevel", share); },
        regular_ ? Assignment() : cheapest->slot_of_rank);
    refine_slots(graph_, *request_.machine, tree_, placement, deadline_);
    add("multilevel", std::move(placement));
    if (deadline_.expired())
      answer_.notes.emplace_back("the multilevel search was ended early");
  }

  /// Swaps on the cheapest other candidates.
  void add_refined() {
    tell("swaps", 0);
    std::vector<std::size_t> order(answer_.candidates.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const double x = answer_.candidates[a].cost;
      const double y = answer_.candidates[b].cost;
      return x < y || (x == y && a < b);
    });
    const double least = answer_.candidates[order.front()].cost;
    std::size_t refined = 0;
    for (const std::size_t at : order) {
      const LargeCandidate &candidate = answer_.candidates[at];
      const bool worthwhile = candidate.cost <= worth_refining * least && refined < most_refined;
      if (!worthwhile || deadline_.expired())
        return;
      if (candidate.name == "multilevel") // it has been through this
        continue;
      Assignment placement = candidate.slot_of_rank;
      if (refine_slots(graph_, *request_.machine, tree_, placement, deadline_) > 0)
        add(candidate.name + " + swaps", std::move(placement));
      ++refined;
    }
  }

  Assignment random_placement() const {
    Assignment placement = Rng(request_.seed).permutation(slots_of(*request_.machine));
    placement.resize(ranks_);
    return placement;
  }

  /// What is asked for; the cost where the machine has no links to look at.
  [[nodiscard]] double primary(const LargeCandidate &each) const {
    if (request_.objective == Objective::cost || !each.prediction.known)
      return each.cost;
    return request_.objective == Objective::time ? each.prediction.predicted_s
                                                 : each.prediction.busiest_s;
  }

  /// a before b in what is asked for; the first of equals wins, so the default loses last.
  [[nodiscard]] bool better(const LargeCandidate &a, const LargeCandidate &b) const {
    if (less_by_tolerance(primary(a), primary(b)) || less_by_tolerance(primary(b), primary(a)))
      return primary(a) < primary(b);
    if (request_.objective != Objective::cost && a.prediction.known) {
      const double mean_a = a.prediction.mean_s;
      const double mean_b = b.prediction.mean_s;
      if (less_by_tolerance(mean_a, mean_b) || less_by_tolerance(mean_b, mean_a))
        return mean_a < mean_b;
    }
    return less_by_tolerance(a.cost, b.cost);
  }

  /// Takes the best out of a list of candidates. No sort: better() has a tolerance, so it is no
  /// order that one could rely on.
  std::size_t take_best(std::vector<std::size_t> &open) const {
    auto best = open.begin();
    for (auto each = open.begin(); each != open.end(); ++each) {
      if (better(answer_.candidates[*each], answer_.candidates[*best]))
        best = each;
    }
    const std::size_t at = *best;
    open.erase(best);
    return at;
  }

  /// The best candidate that is not predicted slower than the default, which is candidate 0.
  std::size_t choose() {
    if (!chooses_placement(request_.method)) {
      predict_all_of(answer_.candidates.size() - 1);
      return answer_.candidates.size() - 1;
    }
    std::vector<std::size_t> open(answer_.candidates.size());
    std::iota(open.begin(), open.end(), std::size_t{0});
    while (!open.empty()) {
      const std::size_t at = take_best(open);
      // Where only the tie-breakers differ nothing is gained: ranks stay where they are.
      if (!less_by_tolerance(primary(answer_.candidates[at]), primary(answer_.candidates[0])))
        break;
      predict_all_of(at);
      const LargePrediction &home = answer_.candidates[0].prediction;
      const LargePrediction &here = answer_.candidates[at].prediction;
      if (!less_by_tolerance(home.predicted_s, here.predicted_s))
        return at;
      answer_.notes.push_back("passed over " + answer_.candidates[at].name +
                              ": predicted slower than the default");
    }
    predict_all_of(0);
    answer_.notes.emplace_back("kept the default: no better placement was found");
    return 0;
  }

  /// The predictions of a candidate and of the default, where they were not needed before.
  void predict_all_of(std::size_t at) {
    for (const std::size_t each : {std::size_t{0}, at}) {
      LargeCandidate &candidate = answer_.candidates[each];
      if (!candidate.prediction.known)
        candidate.prediction =
            predict(*request_.traffic, *request_.machine, candidate.slot_of_rank);
    }
  }

  const LargeRequest &request_;
  std::uint32_t ranks_;
  Deadline deadline_;
  double began_ = 0; // CPU time at which the candidate that is being made was begun
  RankGraph graph_;
  SlotTree tree_;
  std::optional<ProcessGrid> grid_; // that was recognised
  bool regular_ = false;            // a process grid was recognised: geometry is hard to beat
  LargeAnswer answer_;
};

} // namespace

LargeAnswer solve(const LargeRequest &request) { return LargeMapping(request).run(); }

double directed_cost(const RankTraffic &traffic, const LargeMachine &machine,
                     const Assignment &slots) {
  return std::visit(
      [&](const auto &each) {
        double cost = 0;
        for (const Flow &flow : traffic.flows)
          cost += flow.bytes * each.distance(slots[flow.source], slots[flow.target]);
        return cost;
      },
      machine);
}

} // namespace toposeat
