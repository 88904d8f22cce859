// Placements of few ranks on few devices in order of cost, once the least is proved.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "few/orbit_leaders.hpp"
#include "few/small_costs.hpp"
#include "few/time_limit.hpp"

namespace toposeat {

/// Best first: of all parts that are left open the one with the least bound is opened, until that
/// is a single placement.
class CheapestFirst {
public:
  /// `parts` have among them every placement of interest: those that cost less than `below`.
  CheapestFirst(const LoadProblem &problem, std::unique_ptr<SmallCosts> costs,
                std::vector<OpenPart> parts, double below);

  /// From now on, of those that symmetries make of each other one is enough: `parts` are such that
  /// none misses for that.
  void spare(OrbitLeaders leaders);

  /// The next one, of all ranks, of those that do not exceed `limit`. After some, only one of those
  /// that symmetries of the traffic make of each other.
  std::optional<Assignment> next(TimeLimit &limit);

private:
  void spare_twins();
  [[nodiscard]] OpenPart take_least();
  void keep(const OpenPart &part);
  void open(OpenPart part, const TimeLimit &limit);
  double place_all(const OpenPart &part, SmallTable &linear) const;
  std::optional<Assignment> next_way(OpenPart part, TimeLimit &limit);
  [[nodiscard]] std::uint32_t possible_ways(const OpenPart &part, const FourDevices &devices,
                                            const TimeLimit &limit) const;
  [[nodiscard]] bool slow_alone(const OpenPart &part, const TimeLimit &limit) const;
  [[nodiscard]] std::uint32_t permitted(const OpenPart &part, std::size_t rank,
                                        const TimeLimit &limit) const;

  const LoadProblem &problem_;
  std::unique_ptr<SmallCosts> costs_;
  std::optional<OrbitLeaders> leaders_;
  std::uint32_t against_twins_ = 0; // ways
  std::vector<OpenPart> parts_;     // once a heap, the least bound first
  bool in_heap_ = false;
  std::size_t opened_ = 0;
  double below_; // prepared
};

/// What `solve_small_qap` answers, and what comes after it.
struct SmallProof {
  BoundedAnswer best;
  std::unique_ptr<CheapestFirst> others; // null where symmetries of the costs spared some
};

/// As `solve_small_qap`, for those who may want other placements too, which cost less than `below`.
/// `problem` is that of the same placements.
SmallProof prove_small_qap(const Qap &qap, const LoadProblem &problem, const Assignment &incumbent,
                           double below);

/// Where that is null: of placements that symmetries of the machine, its costs included, and of the
/// traffic make of each other, one at least.
CheapestFirst cheapest_first(const Qap &qap, const LoadProblem &problem, const Assignment &optimum,
                             double below);

} // namespace toposeat
