// SPDX-License-Identifier: MIT OR Apache-2.0
#include "solve/tie_descent.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "toposeat/loads/weighted_links.hpp"
#include "toposeat/problem/congestion.hpp"

namespace toposeat {
namespace {

constexpr std::size_t most_timings = 20;
constexpr std::size_t most_looks = 150; // at links, of changes of more than two ranks

class TieDescent {
public:
  TieDescent(const Job &job, const Assignment &placement)
      : job_(job), peaks_(job.machine.network, job.request.traffic),
        least_total_(least_total(job.machine.network)),
        links_(static_cast<double>(std::ranges::count(used_links(job.machine.network), true))),
        seconds_(job.value(Objective::time, placement)), best_(placement),
        score_(score(placement)) {}

  Assignment best() {
    while (timings_ > 0 && (exchanged() || (looks_ > 0 && changed_more()))) {
    }
    return best_;
  }

private:
  [[nodiscard]] Score score(const Assignment &each) {
    const Peak peak = peaks_.of(each);
    const auto stays = std::inner_product(each.begin(), each.end(), job_.home.begin(), 0U,
                                          std::plus<>(), std::equal_to<>());
    return {seconds_, peak.max_s, peak.mean_s, static_cast<std::uint32_t>(each.size()) - stays};
  }

  /// Whether it is the best one now.
  bool takes(const Assignment &changed) {
    const Score found = score(changed);
    if (timings_ == 0 || !found.better_than(score_))
      return false;
    --timings_;
    if (less_by_tolerance(seconds_, job_.seconds(changed, seconds_ * (1 + 2e-9))))
      return false;
    best_ = changed;
    score_ = found;
    return true;
  }

  bool exchanged() {
    bool found = false;
    for_each_exchange(job_.loads, Assignment(best_), [&](const Assignment &changed) {
      found = takes(changed);
      return !found && timings_ > 0;
    });
    return found;
  }

  /// Three ranks in a circle, or two pairs: what two exchanges in turn make.
  bool changed_more() {
    seats_ = job_.padded(best_);
    busiest_is_least_ = !less_by_tolerance(job_.floor().congestion_s, score_.max_s);
    const std::size_t n = seats_.size();
    for (std::size_t r = 0; r < n; ++r) {
      for (std::size_t s = r + 1; s < n; ++s) {
        for (std::size_t t = s + 1; t < n; ++t) {
          if (turned(r, s, t) || turned(r, t, s))
            return true;
        }
        std::swap(seats_[r], seats_[s]);
        const bool found = differ(r, s) && second_pair(r, s);
        std::swap(seats_[r], seats_[s]);
        if (found)
          return true;
      }
    }
    return false;
  }

  /// Each gets the seat of the next.
  bool turned(std::size_t r, std::size_t s, std::size_t t) {
    if (!differ(r, s) || !differ(s, t) || !differ(r, t))
      return false;
    const auto turn = [&](std::size_t a, std::size_t b, std::size_t c) {
      const std::uint32_t first = seats_[a];
      seats_[a] = std::exchange(seats_[b], std::exchange(seats_[c], first));
    };
    turn(r, s, t);
    const bool found = seated();
    turn(t, s, r);
    return found;
  }

  /// Ranks r and s have changed places; of two pairs the one with the lowest rank comes first.
  bool second_pair(std::size_t r, std::size_t s) {
    for (std::size_t t = r + 1; t < seats_.size(); ++t) {
      for (std::size_t u = t + 1; t != s && u < seats_.size(); ++u) {
        if (u == s || !differ(t, u))
          continue;
        std::swap(seats_[t], seats_[u]);
        const bool found = seated();
        std::swap(seats_[t], seats_[u]);
        if (found)
          return true;
      }
    }
    return false;
  }

  [[nodiscard]] double least_mean(const Assignment &each) const {
    double seconds = 0;
    for (const Flow &flow : job_.request.traffic.flows)
      seconds += flow.bytes * least_total_(each[flow.source], each[flow.target]);
    return seconds / links_;
  }

  /// One of them at least is a rank of the job.
  [[nodiscard]] bool differ(std::size_t a, std::size_t b) const {
    return std::min(a, b) < best_.size();
  }

  bool seated() {
    const std::size_t ranks = best_.size();
    for (std::size_t r = 0; r < ranks; ++r) {
      if (!job_.loads.may_use(r, seats_[r]))
        return false;
    }
    changed_.assign(seats_.begin(), seats_.begin() + static_cast<std::ptrdiff_t>(ranks));
    if (busiest_is_least_ && least_mean(changed_) > score_.mean_s * (1 + 1e-12))
      return false;
    if (looks_ == 0)
      return false;
    --looks_;
    return takes(changed_);
  }

  const Job &job_;
  PeakModel peaks_;
  LinkMean least_total_;
  double links_; // that the mean is over
  double seconds_;
  Assignment best_;
  Score score_;
  Assignment changed_;
  Assignment seats_;              // of the best, silent ranks included, or changed
  bool busiest_is_least_ = false; // then only a smaller mean is better
  std::size_t timings_ = most_timings;
  std::size_t looks_ = most_looks;
};

} // namespace

Assignment best_of_equals(const Job &job, const Assignment &placement) {
  return TieDescent(job, placement).best();
}

} // namespace toposeat
