// Placements that keep every link within a limit: found, or shown not to exist.
//
// A constraint satisfaction problem: variables are ranks, values devices, all different, and for
// each directed link l with capacity c[l]
//
//     sum over flows f that use l of bytes(f)  <=  limit x c[l]
//
// Depth-first search with forward checking (Haralick, Elliott, Artificial Intelligence 14, 1980),
// with the variable order dom/wdeg (Boussemart et al., ECAI 2004) and symmetry
// breaking by canonical representatives.
//
// Applies to congestion and to flow time on up to 16 devices, pins and allowed devices included. If
// it ends without a placement, the limit is a lower bound; of flow time too, for no link can carry
// its bytes sooner.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "exact/limit_kernel.hpp"
#include "exact/limit_terms.hpp"
#include "problem/load_problem.hpp"
#include "toposeat/base/deadline.hpp"
#include "toposeat/problem/symmetry.hpp"

namespace toposeat {

/// Ranks that exchange something and all that are restricted, pinned ones first, then always the
/// one with most traffic to those before it: the order in which ranks are placed.
[[nodiscard]] std::vector<std::uint32_t> branching_order(const LoadProblem &problem);

/// Depth-first search for placements on up to 16 devices none of whose sums (see `LimitTerms`)
/// exceeds what a limit leaves it.
///
/// Every rank has a set of devices on which what it exchanges with placed ranks still finds room:
/// beside what is placed, and beside the least that every other rank adds wherever it sits.
/// Placing one narrows the sets of all others; a rank without devices, or ranks that do not find
/// different ones, end a branch. After the ranks that symmetries of the machine help to place, the
/// next is the one with the fewest devices, in proportion to how often it ended branches and to how
/// many others it waits for. A placed rank whose rounds would take too long, with its other
/// partners on the nearest devices that are free, ends a branch too. Symmetries of the traffic are
/// used as `later_interchangeable` says.
class LimitSearch {
public:
  /// See `LimitTerms` for `timed`. `problem` must outlive the search.
  LimitSearch(const LoadProblem &problem, bool timed);

  /// Called with a placement of all ranks; returns what the limit is from then on, if it is less
  /// than it was. 0 ends the search.
  using Visit = std::function<double(const Assignment &)>;

  /// Visits all placements whose sums stay below `below_s` (by 1e-9 of it) but for those that
  /// symmetries make of others, and perhaps some above. False if it ended before: at the deadline,
  /// because a visitor had seen enough, or because it would take more than `most_nodes`, by the
  /// share of the tree that it has walked.
  bool run(double below_s, const Deadline &deadline, const Visit &visit,
           double most_nodes = unlimited);

  /// Ranks placed so far, in all runs.
  [[nodiscard]] std::uint64_t nodes() const { return nodes_; }

  /// What the last run took, in nodes that take as long.
  [[nodiscard]] double work() const;

private:
  using Domains = std::array<std::uint32_t, max_limited_devices>; // devices by place of the order

  struct Node {
    std::size_t depth = 0;
    std::uint32_t open = 0; // places of the ranks that are not placed
    Domains domains{};
    bool symmetric = true; // symmetries of the machine may be left
  };

  [[nodiscard]] Domains domains_of_all() const;
  void explore(const Node &node, double share);
  [[nodiscard]] std::size_t chosen_rank(const Node &node) const;
  [[nodiscard]] std::uint32_t representatives(std::uint32_t devices) const;
  bool place(std::size_t p, std::uint32_t device, Node &node);
  bool narrow(std::size_t p, std::uint32_t device, Node &node);
  bool leave_room(Node &node);
  [[nodiscard]] bool waits_too_long(std::size_t p, std::uint32_t open) const;
  bool blame(std::size_t p);
  void leaf();
  void lower(double below_s);
  bool out_of_time();
  [[nodiscard]] bool hopeless() const;

  [[nodiscard]] std::int32_t *lines(std::size_t depth, std::size_t p) {
    return lines_.data() + (depth * max_limited_devices + p) * line_block_;
  }
  [[nodiscard]] std::int32_t *room(std::size_t depth) {
    return room_.data() + depth * terms_.stride();
  }
  [[nodiscard]] std::int32_t *least(std::size_t p) { return least_.data() + p * terms_.stride(); }

  const LoadProblem &problem_;
  std::vector<std::uint32_t> order_;
  LimitTerms terms_;
  Symmetry symmetry_;
  std::vector<std::uint32_t> interchangeable_;
  std::size_t line_block_; // numbers of one rank on all devices
  WholeLines lines_;       // [depth][rank][device][sum]: with those placed before
  WholeLines room_;        // [depth][sum]
  WholeLines least_;       // [rank][sum]: over the devices it may have
  WholeLines slack_;       // [sum]: room beside the least of all
  WholeLines limits_;      // [sum]
  std::array<std::array<const std::int32_t *, max_limited_devices>, max_limited_devices + 1>
      lines_of_{}; // [depth][rank]: where they are
  std::array<std::uint32_t, max_limited_devices> talks_{};
  std::array<std::uint64_t, max_limited_devices> blamed_{};
  std::array<std::uint32_t, max_limited_devices> here_{};
  std::vector<std::uint32_t> fixed_;
  std::uint32_t waiting_ = 0; // places of ranks with rounds
  double below_s_ = 0;
  const Deadline *deadline_ = nullptr;
  const Visit *visit_ = nullptr;
  std::uint64_t nodes_ = 0;
  std::uint64_t begun_ = 0;  // nodes before this run
  std::uint64_t visits_ = 0; // in this run
  double walked_ = 0;        // share of this run's tree
  double most_nodes_ = 0;
  bool stopped_ = false;
};

} // namespace toposeat
