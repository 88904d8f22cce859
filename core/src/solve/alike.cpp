// SPDX-License-Identifier: MIT OR Apache-2.0
#include "solve/alike.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace toposeat {
namespace {

/// Whether the exchange of two devices maps routes onto routes, step by step, and with them links
/// (and limits of pairs) onto links of equal capacity.
class DeviceTwins {
public:
  DeviceTwins(const Network &network, const Qap &qap)
      : network_(network), qap_(qap), links_(network.links.size()),
        uses_(links_ + network.pair_limits.size(), 0), image_(uses_.size(), unset) {
    for (const LinkUse &use : network.route_uses)
      ++uses_[use.link];
    for (const std::int32_t limit : network.limit_of_pair) {
      if (limit != none_of_pair)
        ++uses_[links_ + static_cast<std::size_t>(limit)];
    }
  }

  bool operator()(std::uint32_t a, std::uint32_t b) {
    const bool alike = costs_alike(a, b) && routes_map(a, b) && nobody_else_uses_moved_links();
    for (const std::uint32_t each : touched_)
      image_[each] = unset;
    touched_.clear();
    return alike;
  }

private:
  static constexpr std::uint32_t unset = std::numeric_limits<std::uint32_t>::max();

  [[nodiscard]] bool costs_alike(std::uint32_t a, std::uint32_t b) const {
    return exchange_keeps(qap_.distance, a, b) &&
           (qap_.distance2.n == 0 || exchange_keeps(qap_.distance2, a, b));
  }

  bool routes_map(std::uint32_t a, std::uint32_t b) {
    seen_ = 0;
    for (std::uint32_t k = 0; k < network_.devices; ++k) {
      if (k != a && k != b && !(pair_maps(a, k, b, k) && pair_maps(k, a, k, b)))
        return false;
    }
    return pair_maps(a, b, b, a) && pair_maps(a, a, b, b);
  }

  bool pair_maps(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
    const std::size_t one = std::size_t{a} * network_.devices + b;
    const std::size_t other = std::size_t{c} * network_.devices + d;
    const auto route = network_.route(a, b);
    const auto image = network_.route(c, d);
    if (network_.cap[one] != network_.cap[other] ||
        network_.latency[one] != network_.latency[other] ||
        network_.curve(one) != network_.curve(other) || route.size() != image.size())
      return false;
    for (std::size_t i = 0; i < route.size(); ++i) {
      if (route[i].reverse != image[i].reverse || !maps(route[i].link, image[i].link))
        return false;
    }
    const std::int32_t limit = network_.limit(one);
    const std::int32_t limit_there = network_.limit(other);
    if (limit == none_of_pair || limit_there == none_of_pair)
      return limit == limit_there;
    return maps(static_cast<std::uint32_t>(links_) + static_cast<std::uint32_t>(limit),
                static_cast<std::uint32_t>(links_) + static_cast<std::uint32_t>(limit_there));
  }

  /// A link, or a limit of pairs, and the other change places; or one stays where it is.
  bool maps(std::uint32_t one, std::uint32_t other) {
    seen_ += one == other ? 0 : 2; // one use each
    if (image_[one] == unset && image_[other] == unset) {
      image_[one] = other;
      image_[other] = one;
      touched_.insert(touched_.end(), {one, other});
      return same_capacity(one, other);
    }
    return image_[one] == other && image_[other] == one;
  }

  [[nodiscard]] bool same_capacity(std::uint32_t one, std::uint32_t other) const {
    if ((one < links_) != (other < links_))
      return false;
    if (one >= links_)
      return network_.pair_limits[one - links_] == network_.pair_limits[other - links_];
    const LinkCapacity &link = network_.links[one];
    const LinkCapacity &there = network_.links[other];
    return link.forward == there.forward && link.backward == there.backward &&
           link.combined == there.combined;
  }

  /// What other pairs use must stay where it is.
  [[nodiscard]] bool nobody_else_uses_moved_links() const {
    std::size_t uses = 0;
    for (const std::uint32_t each : touched_) {
      if (image_[each] != each)
        uses += uses_[each];
    }
    return uses == seen_;
  }

  const Network &network_;
  const Qap &qap_;
  std::size_t links_;
  std::vector<std::size_t> uses_; // of links, then of limits
  std::vector<std::uint32_t> image_;
  std::vector<std::uint32_t> touched_;
  std::size_t seen_ = 0; // uses of what moves
};

/// Whether the exchange of two ranks leaves the traffic as it is.
class RankTwins {
public:
  RankTwins(const LoadProblem &problem, std::size_t size)
      : problem_(problem), bytes_(size), messages_(size) {
    for (const Flow &flow : problem.traffic.flows) {
      bytes_(flow.source, flow.target) = flow.bytes;
      messages_(flow.source, flow.target) = flow.messages;
    }
  }

  [[nodiscard]] bool operator()(std::uint32_t r, std::uint32_t s) const {
    return free(r) && free(s) && exchange_keeps(bytes_, r, s) && exchange_keeps(messages_, r, s);
  }

private:
  [[nodiscard]] bool free(std::uint32_t rank) const {
    return rank >= problem_.traffic.ranks ||
           (problem_.allowed.empty() && problem_.pinned[rank] == Qap::no_pin);
  }

  const LoadProblem &problem_;
  Matrix bytes_, messages_;
};

/// The first of each class; being twins is an equivalence.
template <class Twins> std::vector<std::uint32_t> classes(std::size_t size, Twins &&twins) {
  std::vector<std::uint32_t> first_of(size);
  std::vector<std::uint32_t> firsts;
  for (std::uint32_t each = 0; each < size; ++each) {
    const auto first = std::find_if(firsts.begin(), firsts.end(),
                                    [&](std::uint32_t other) { return twins(other, each); });
    first_of[each] = first == firsts.end() ? each : *first;
    if (first == firsts.end())
      firsts.push_back(each);
  }
  return first_of;
}

} // namespace

Alike::Alike(const LoadProblem &problem, const Qap &qap)
    : class_of_rank_(classes(qap.size(), RankTwins(problem, qap.size()))),
      class_of_device_(classes(qap.size(), DeviceTwins(problem.network, qap))) {}

std::uint64_t Alike::number(std::span<const std::uint32_t> placement) const {
  std::uint64_t sum = 0;
  for (std::size_t r = 0; r < placement.size(); ++r)
    sum += seat(r, placement[r]);
  return sum;
}

} // namespace toposeat
