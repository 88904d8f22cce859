// Link loads while ranks are placed one by one and taken back.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "toposeat/loads/floors.hpp"
#include "toposeat/problem/congestion.hpp"
#include "toposeat/problem/network.hpp"
#include "toposeat/problem/qap.hpp"

namespace toposeat {

/// Link loads of the ranks placed so far, with undo.
class PartialLoads {
public:
  /// Without `timed`, flows alone are not timed.
  PartialLoads(const Network &network, bool timed)
      : network_(network), timed_(timed), rates_(timed ? lone_rates(network) : Matrix()),
        bytes_(network.links.size()), seconds_(network.links.size(), 0.0) {
    for (const LinkCapacity &link : network.links)
      paces_.push_back({1 / link.forward, 1 / link.backward, 1 / link.combined});
  }

  struct Mark {
    std::size_t saved;
    double max_s;
    double sum_s;
    double flow_s;
  };

  [[nodiscard]] Mark mark() const { return {saved_.size(), max_s_, sum_s_, flow_s_}; }

  void add(const Flow &flow, std::uint32_t from, std::uint32_t to) {
    for (const LinkUse &use : network_.route(from, to)) {
      LinkBytes &bytes = bytes_[use.link];
      double &seconds = seconds_[use.link];
      saved_.push_back({use.link, bytes, seconds});
      (use.reverse ? bytes.backward : bytes.forward) += flow.bytes;
      const Pace &pace = paces_[use.link];
      const double now = std::max({bytes.forward * pace.forward, bytes.backward * pace.backward,
                                   (bytes.forward + bytes.backward) * pace.combined});
      sum_s_ += now - seconds;
      seconds = now;
      max_s_ = std::max(max_s_, now);
    }
    if (!timed_)
      return;
    const std::size_t pair = from * std::size_t{network_.devices} + to;
    flow_s_ = std::max(flow_s_, flow.messages * network_.latency[pair] +
                                    (flow.bytes > 0 ? flow.bytes / rates_(from, to) : 0));
  }

  void undo(const Mark &mark) {
    while (saved_.size() > mark.saved) {
      bytes_[saved_.back().link] = saved_.back().bytes;
      seconds_[saved_.back().link] = saved_.back().seconds;
      saved_.pop_back();
    }
    max_s_ = mark.max_s;
    sum_s_ = mark.sum_s;
    flow_s_ = mark.flow_s;
  }

  [[nodiscard]] double max_s() const { return max_s_; }
  [[nodiscard]] double sum_s() const { return sum_s_; }
  [[nodiscard]] double flow_s() const { return flow_s_; } // slowest placed flow, alone

private:
  struct Saved {
    std::uint32_t link;
    LinkBytes bytes;
    double seconds;
  };
  /// Seconds per byte: dividing each time takes longer than everything else.
  struct Pace {
    double forward;
    double backward;
    double combined;
  };
  const Network &network_;
  bool timed_;
  Matrix rates_;
  std::vector<Pace> paces_;
  std::vector<LinkBytes> bytes_;
  std::vector<double> seconds_;
  std::vector<Saved> saved_;
  double max_s_ = 0;
  double sum_s_ = 0;
  double flow_s_ = 0;
};

} // namespace toposeat
