// Routes through a graph of switches, by destination, as InfiniBand's forwarding tables have them.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace toposeat {

/// One direction of a cable, or of several between the same two switches.
struct SwitchLink {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  double bandwidth = 1; // bytes/s
  double latency = 0;   // seconds
  double weight = 1;    // of a hop, of paths, the shortest of which are taken
  std::string name;
};

/// Shortest paths between some of the switches (`stops`), by the sum of hop weights. Where several
/// next links are as short, the destination decides, so that a destination's packets always take
/// the same path and destinations spread over all of them; or the first link does, which is
/// dimension order where links are listed by dimension.
class SwitchRoutes {
public:
  /// Throws std::invalid_argument if a stop cannot be reached, numbers are out of range, or the
  /// tables would need too much memory. `share[p]` says how many slots are behind stop p.
  SwitchRoutes(std::uint32_t switches, std::vector<SwitchLink> links,
               std::vector<std::uint32_t> stops, const std::vector<double> &share, bool spread);

  [[nodiscard]] const std::vector<SwitchLink> &links() const { return links_; }
  [[nodiscard]] std::uint32_t stops() const { return static_cast<std::uint32_t>(stops_.size()); }
  /// Seconds per byte and slot between two stops when every slot sends to all others alike: what
  /// the links between them have to share. Symmetric; the mean over paths that are as short.
  [[nodiscard]] double cost(std::uint32_t p, std::uint32_t q) const { return cost_[at(p, q)]; }
  [[nodiscard]] const std::vector<double> &costs() const { return cost_; }
  /// Seconds of a message over the links between two stops; the mean over paths that are as short.
  [[nodiscard]] double latency(std::uint32_t p, std::uint32_t q) const {
    return latency_[at(p, q)];
  }

  /// Whether there is anywhere more than one shortest way.
  [[nodiscard]] bool has_choices() const {
    return std::adjacent_find(begin_.begin(), begin_.end(), [](std::uint32_t a, std::uint32_t b) {
             return b - a > 1;
           }) != begin_.end();
  }

  /// Calls `use(link)` for each link from stop p to stop q. `key` tells destinations at q apart.
  template <class Use>
  void walk(std::uint32_t p, std::uint32_t q, std::uint32_t key, Use use) const {
    std::uint32_t here = stops_[p];
    while (here != stops_[q]) {
      const std::size_t entry = std::size_t{q} * switches_ + here;
      const std::uint32_t choices = begin_[entry + 1] - begin_[entry];
      const std::uint32_t link = next_[begin_[entry] + (spread_ ? key % choices : 0)];
      key /= choices; // the next switch chooses by what this one left undecided
      use(link);
      here = links_[link].to;
    }
  }

private:
  [[nodiscard]] std::size_t at(std::uint32_t p, std::uint32_t q) const {
    return std::size_t{p} * stops_.size() + q;
  }
  void find_next_links();
  [[nodiscard]] std::vector<double> uniform_load(const std::vector<double> &share) const;
  void price(const std::vector<double> &load);
  template <class Visit> void from_near_to_far(std::uint32_t stop, Visit visit) const;

  std::uint32_t switches_;
  std::vector<SwitchLink> links_;
  std::vector<std::uint32_t> stops_;
  bool spread_;
  std::vector<std::uint32_t> begin_;              // stops x switches: of their entries in `next_`
  std::vector<std::uint32_t> next_;               // links that lead nearer
  std::vector<std::vector<std::uint32_t>> order_; // of each stop: switches, nearest first
  std::vector<double> cost_;
  std::vector<double> latency_;
};

} // namespace toposeat
