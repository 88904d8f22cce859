// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/loads/load_branching.hpp"

#include <algorithm>
#include <tuple>

#include "loads/partial_loads.hpp"
#include "loads/partial_mean.hpp"
#include "toposeat/cost/dual_ascent.hpp"
#include "toposeat/flow/flow.hpp"
#include "toposeat/problem/congestion.hpp"
#include "toposeat/problem/symmetry.hpp"

namespace toposeat {

const DeviceSets LoadProblem::unrestricted;

namespace {

constexpr double tolerance = 1e-9;
constexpr std::uint64_t tie_break_nodes = 20000;

class LoadBranching {
public:
  LoadBranching(const LoadProblem &problem, const Assignment &incumbent, double known_bound,
                const Deadline &deadline, bool timed)
      : problem_(problem), deadline_(deadline), timed_(timed), known_bound_(known_bound),
        order_(branching_order(problem)), loads_(problem.network, timed),
        model_(problem.network, problem.traffic), symmetry_(problem.network), best_(incumbent),
        here_(problem.traffic.ranks, Qap::no_pin), taken_(problem.network.devices, false) {
    const Congestion start = congestion(problem.network, problem.traffic, incumbent);
    best_sum_ = 0;
    for (const double seconds : start.seconds)
      best_sum_ += seconds;
    best_value_ = timed ? model_.seconds(incumbent) : start.max_s;
    list_flows();
    choose_means();
  }

  BoundedAnswer run() {
    if (!timed_ || best_value_ > known_bound_ * (1 + tolerance))
      explore(0, true);
    BoundedAnswer answer{best_, best_value_, 0, false};
    answer.lower_bound = std::min(best_value_, std::max(open_, known_bound_));
    answer.proved = answer.lower_bound >= best_value_ * (1 - tolerance);
    if (answer.proved)
      answer.lower_bound = best_value_;
    return answer;
  }

private:
  struct Child {
    double bound;
    double sum;
    std::uint32_t device;
  };

  /// flows_at_[k]: flows between the k-th rank of the order and those before it.
  void list_flows() {
    std::vector<std::size_t> depth_of(problem_.traffic.ranks, 0);
    for (std::size_t k = 0; k < order_.size(); ++k)
      depth_of[order_[k]] = k;
    flows_at_.resize(order_.size());
    for (const Flow &flow : problem_.traffic.flows) {
      if (!(flow.bytes > 0) && !(flow.messages > 0))
        continue;
      flows_at_[std::max(depth_of[flow.source], depth_of[flow.target])].push_back(&flow);
    }
  }

  /// The means that bound best: of the maximum the one with the best bound at the root, and the
  /// mean of all links, which bounds the sum too.
  void choose_means() {
    const auto used = used_links(problem_.network);
    used_links_ = static_cast<double>(std::count(used.begin(), used.end(), true));
    Qap qap = make_qap(problem_.traffic, Matrix(problem_.network.devices));
    double best = -1;
    std::vector<LinkMean> means = link_means(problem_.network);
    std::size_t chosen = 0;
    for (std::size_t i = 0; i < means.size(); ++i) {
      qap.distance = means[i];
      const double bound = gilmore_lawler_bound(qap);
      if (bound > best)
        chosen = i;
      best = std::max(best, bound);
    }
    if (means.empty())
      return;
    means_.emplace_back(means.back(), problem_.traffic, order_);
    if (chosen + 1 < means.size())
      means_.emplace_back(means[chosen], problem_.traffic, order_);
  }

  /// Bound of the largest congestion, and of the sum, with the next rank on a device.
  Child bound_of_means(std::uint32_t device) const {
    Child child{0, 0, device};
    for (const PartialMean &mean : means_)
      child.bound = std::max(child.bound, mean.bound_with(device));
    if (!means_.empty())
      child.sum = used_links_ * means_.front().bound_with(device);
    if (timed_ && child.bound > 0)
      child.bound += problem_.floors.start_s;
    return child;
  }

  double bound_here() const {
    if (!timed_)
      return std::max(known_bound_, loads_.max_s());
    return std::max({known_bound_, loads_.max_s() + problem_.floors.start_s, loads_.flow_s()});
  }

  bool hopeless(double bound, double sum) const {
    if (timed_)
      return bound >= best_value_ * (1 - tolerance);
    if (bound > best_value_ * (1 + tolerance))
      return true;
    return bound >= best_value_ * (1 - tolerance) && sum >= best_sum_ * (1 - tolerance);
  }

  bool out_of_time() {
    if (++nodes_ % 16 == 0 && deadline_.expired())
      stopped_ = true;
    // Only the tie-break is left to gain: stop after a fixed effort, the same on every machine.
    if (!timed_ && best_value_ <= known_bound_ * (1 + tolerance) && ++idle_ > tie_break_nodes) {
      stopped_ = true;
    }
    return stopped_;
  }

  void explore(std::size_t depth, bool symmetric) {
    if (depth == order_.size()) {
      leaf();
      return;
    }
    const std::uint32_t rank = order_[depth];
    const std::vector<Child> children = bounded_children(depth, rank, symmetric);
    for (const Child &child : children) {
      if (hopeless(child.bound, child.sum))
        continue;
      if (out_of_time()) {
        open_ = std::min(open_, child.bound);
        continue;
      }
      const PartialLoads::Mark mark = loads_.mark();
      if (place(depth, rank, child.device))
        explore(depth + 1, symmetric);
      take_back(rank, child.device, mark);
    }
  }

  std::vector<Child> bounded_children(std::size_t depth, std::uint32_t rank, bool &symmetric) {
    std::vector<Child> children;
    const Matrix &floor = timed_ ? problem_.floors.time : problem_.floors.congestion;
    for (const std::uint32_t device : candidates(rank, symmetric)) {
      Child child = bound_of_means(device);
      child.bound = std::max({child.bound, known_bound_, floor(rank, device)});
      if (hopeless(child.bound, child.sum)) // what loads add cannot save it
        continue;
      const PartialLoads::Mark mark = loads_.mark();
      const bool hope = add_loads(depth, rank, device);
      child.bound = std::max(child.bound, bound_here());
      child.sum = std::max(child.sum, loads_.sum_s());
      remove_loads(rank, mark);
      if (hope)
        children.push_back(child);
    }
    std::sort(children.begin(), children.end(), [](const Child &a, const Child &b) {
      return std::tie(a.bound, a.sum, a.device) < std::tie(b.bound, b.sum, b.device);
    });
    return children;
  }

  std::vector<std::uint32_t> candidates(std::uint32_t rank, bool &symmetric) const {
    std::vector<std::uint32_t> free;
    for (std::uint32_t d = 0; d < taken_.size(); ++d) {
      if (!taken_[d] && problem_.may_use(rank, d))
        free.push_back(d);
    }
    if (!symmetric || !problem_.allowed.empty())
      return free;
    std::vector<std::uint32_t> chosen = symmetry_.representatives(fixed_, free);
    symmetric = chosen.size() < free.size();
    return chosen;
  }

  /// False if better placements known by now make this one hopeless.
  bool place(std::size_t depth, std::uint32_t rank, std::uint32_t device) {
    const bool hope = add_loads(depth, rank, device);
    taken_[device] = true;
    fixed_.push_back(device);
    for (PartialMean &mean : means_)
      mean.place(device);
    return hope;
  }

  void take_back(std::uint32_t rank, std::uint32_t device, const PartialLoads::Mark &mark) {
    remove_loads(rank, mark);
    taken_[device] = false;
    fixed_.pop_back();
    for (PartialMean &mean : means_)
      mean.take_back();
  }

  /// Stops, and returns false, once what is placed is hopeless.
  bool add_loads(std::size_t depth, std::uint32_t rank, std::uint32_t device) {
    here_[rank] = device;
    for (const Flow *flow : flows_at_[depth]) {
      loads_.add(*flow, here_[flow->source], here_[flow->target]);
      if (hopeless(bound_here(), loads_.sum_s()))
        return false;
    }
    return true;
  }

  void remove_loads(std::uint32_t rank, const PartialLoads::Mark &mark) {
    loads_.undo(mark);
    here_[rank] = Qap::no_pin;
  }

  void leaf() {
    const Assignment whole = with_silent_ranks();
    const double value = timed_ ? model_.seconds(whole, give_up_at(best_value_)) : loads_.max_s();
    const double sum = loads_.sum_s();
    const bool better =
        value < best_value_ * (1 - tolerance) ||
        (!timed_ && value <= best_value_ * (1 + tolerance) && sum < best_sum_ * (1 - tolerance));
    if (!better)
      return;
    best_ = whole;
    best_value_ = timed_ ? value : std::min(value, best_value_);
    best_sum_ = sum;
    idle_ = 0;
  }

  /// Silent ranks take the devices that are left, in order.
  Assignment with_silent_ranks() const {
    Assignment whole = here_;
    std::uint32_t device = 0;
    for (std::uint32_t &each : whole) {
      if (each != Qap::no_pin)
        continue;
      while (taken_[device])
        ++device;
      each = device++;
    }
    return whole;
  }

  const LoadProblem &problem_;
  const Deadline &deadline_;
  bool timed_;
  double known_bound_;
  std::vector<std::uint32_t> order_;
  std::vector<std::vector<const Flow *>> flows_at_;
  PartialLoads loads_;
  FlowModel model_;
  Symmetry symmetry_;
  Assignment best_;
  double best_value_ = 0;
  double best_sum_ = 0;
  Assignment here_;
  std::vector<bool> taken_;
  std::vector<std::uint32_t> fixed_;
  std::vector<PartialMean> means_; // the first over all links
  double used_links_ = 0;
  double open_ = unlimited; // least bound of what was not explored
  std::uint64_t nodes_ = 0;
  std::uint64_t idle_ = 0;
  bool stopped_ = false;
};

} // namespace

std::vector<std::uint32_t> branching_order(const LoadProblem &problem) {
  const std::uint32_t ranks = problem.traffic.ranks;
  std::vector<double> attached(ranks, 0);
  std::vector<double> total(ranks, 0);
  Matrix between(ranks);
  for (const Flow &flow : problem.traffic.flows) {
    // A message without bytes still takes time.
    const double weight = flow.bytes + flow.messages;
    between(flow.source, flow.target) += weight;
    between(flow.target, flow.source) += weight;
    total[flow.source] += weight;
    total[flow.target] += weight;
  }
  std::vector<std::uint32_t> order;
  std::vector<bool> taken(ranks, false);
  for (std::uint32_t step = 0; step < ranks; ++step) {
    std::uint32_t chosen = ranks;
    for (std::uint32_t r = 0; r < ranks; ++r) {
      const bool restricted = problem.pinned[r] != Qap::no_pin || !problem.allowed.empty();
      if (taken[r] || (!restricted && !(total[r] > 0)))
        continue;
      const auto key = [&](std::uint32_t rank) {
        return std::tuple(problem.pinned[rank] != Qap::no_pin, attached[rank], total[rank]);
      };
      if (chosen == ranks || key(r) > key(chosen))
        chosen = r;
    }
    if (chosen == ranks)
      break;
    taken[chosen] = true;
    order.push_back(chosen);
    for (std::uint32_t r = 0; r < ranks; ++r)
      attached[r] += between(chosen, r);
  }
  return order;
}

BoundedAnswer branch_on_congestion(const LoadProblem &problem, const Assignment &incumbent,
                                   double known_bound, const Deadline &deadline) {
  return LoadBranching(problem, incumbent, known_bound, deadline, false).run();
}

BoundedAnswer branch_on_time(const LoadProblem &problem, const Assignment &incumbent,
                             double known_bound, const Deadline &deadline) {
  return LoadBranching(problem, incumbent, known_bound, deadline, true).run();
}

} // namespace toposeat
