// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>
#include <vector>

#include "job.hpp"
#include "toposeat/congestion.hpp"
#include "toposeat/flow.hpp"

namespace toposeat {
namespace {

constexpr std::size_t enumerated_devices = 8; // 40320 placements, a tenth of a second
constexpr std::size_t between_looks = 256;    // placements from one look at the clock to the next

struct Candidate {
  double value;  // as a share of the default's, rounded: equal ones must compare equal
  double mean_s; // 0 unless the objective is congestion
  Assignment placement;

  bool operator<(const Candidate &other) const {
    return std::tie(value, mean_s, placement) <
           std::tie(other.value, other.mean_s, other.placement);
  }
};

/// Calls `visit` with every placement that keeps the pins until it returns false.
class Placements {
public:
  Placements(const Job &job, const std::function<bool(const Assignment &)> &visit)
      : job_(job), visit_(visit), taken_(job.devices(), false) {
    for (const std::uint32_t pin : job.machine.pinned) {
      if (pin != Qap::no_pin)
        taken_[pin] = true;
    }
  }

  bool extend() {
    const std::size_t rank = here_.size();
    if (rank == job_.request.traffic.ranks)
      return visit_(here_);
    const std::uint32_t pin = job_.machine.pinned[rank];
    if (pin != Qap::no_pin)
      return seat(pin);
    for (std::uint32_t device = 0; device < taken_.size(); ++device) {
      if (taken_[device] || !job_.machine.allowed.contains(rank, device))
        continue;
      taken_[device] = true;
      const bool go_on = seat(device);
      taken_[device] = false;
      if (!go_on)
        return false;
    }
    return true;
  }

private:
  bool seat(std::uint32_t device) {
    here_.push_back(device);
    const bool go_on = extend();
    here_.pop_back();
    return go_on;
  }

  const Job &job_;
  const std::function<bool(const Assignment &)> &visit_;
  std::vector<bool> taken_;
  Assignment here_;
};

/// Nothing unless the placement beats the default.
std::optional<Candidate> judged(const Job &job, double home_value, const Assignment &placement) {
  const bool cost = job.request.objective == Objective::cost;
  Congestion loads;
  if (!cost)
    loads = congestion(job.machine.network, job.request.traffic, placement);
  const double value = cost ? job.value(Objective::cost, placement) : loads.max_s;
  if (!less_by_tolerance(value, home_value))
    return std::nullopt;
  return Candidate{std::round(value / home_value * 1e10), loads.mean_s, placement};
}

} // namespace

std::optional<Assignment> best_not_slower(const Job &job, const Deadline &deadline) {
  if (job.devices() > enumerated_devices)
    return std::nullopt;
  const double home_value = job.value(job.request.objective, job.home);
  const double home_s = job.value(Objective::time, job.home);
  std::vector<Candidate> better;
  std::size_t looked = 0;
  const auto collect = [&](const Assignment &placement) {
    if (std::optional<Candidate> candidate = judged(job, home_value, placement))
      better.push_back(std::move(*candidate));
    return ++looked % between_looks != 0 || !deadline.expired();
  };
  if (!Placements(job, collect).extend())
    return std::nullopt;
  std::sort(better.begin(), better.end());
  FlowModel model(job.machine.network, job.request.traffic);
  for (const Candidate &each : better) {
    if (!less_by_tolerance(home_s, model.seconds(each.placement, 1.01 * home_s)))
      return each.placement;
    if (++looked % between_looks == 0 && deadline.expired())
      break;
  }
  return std::nullopt;
}

} // namespace toposeat
