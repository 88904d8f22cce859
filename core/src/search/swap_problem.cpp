// SPDX-License-Identifier: MIT OR Apache-2.0
#include "search/swap_problem.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

namespace toposeat {
namespace {

constexpr double largest_exact = 9007199254740992.0; // 2^53
constexpr double largest_sum = 1 << 28;              // room for intermediate sums in 32 bits

Matrix part_of(const Matrix &whole, const std::vector<std::uint32_t> &chosen) {
  Matrix part(chosen.size());
  for (std::size_t i = 0; i < part.n; ++i) {
    for (std::size_t j = 0; j < part.n; ++j)
      part(i, j) = i == j ? 0 : whole(chosen[i], chosen[j]);
  }
  return part;
}

Matrix transposed(const Matrix &matrix) {
  Matrix result(matrix.n);
  for (std::size_t i = 0; i < matrix.n; ++i) {
    for (std::size_t j = 0; j < matrix.n; ++j)
      result(i, j) = matrix(j, i);
  }
  return result;
}

Matrix plus_transposed(const Matrix &matrix) {
  Matrix result = transposed(matrix);
  for (std::size_t i = 0; i < matrix.values.size(); ++i)
    result.values[i] += matrix.values[i];
  return result;
}

void scale(Matrix &matrix, double factor) {
  for (double &value : matrix.values)
    value *= factor;
}

/// Greatest common divisor of whole numbers below 2^53; nothing if one is not such a number.
/// 0 if all are 0.
std::optional<double> common_divisor(const std::vector<double> &values) {
  std::uint64_t divisor = 0;
  for (const double value : values) {
    const double size = std::abs(value);
    if (size != std::floor(size) || size > largest_exact)
      return std::nullopt;
    if (divisor != 1)
      divisor = std::gcd(divisor, static_cast<std::uint64_t>(size));
  }
  return static_cast<double>(divisor);
}

double largest_entry(const Matrix &matrix) {
  double largest = 0;
  for (const double value : matrix.values)
    largest = std::max(largest, std::abs(value));
  return largest;
}

double largest_row_sum(const Matrix &matrix) {
  double largest = 0;
  for (std::size_t i = 0; i < matrix.n; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < matrix.n; ++j)
      sum += std::abs(matrix(i, j));
    largest = std::max(largest, sum);
  }
  return largest;
}

class Reduction {
public:
  explicit Reduction(const Qap &qap) : qap_(qap) {}

  SwapProblem run() {
    split();
    add_term(qap_.flow, qap_.distance);
    if (qap_.has_second_term())
      add_term(qap_.flow2, qap_.distance2);
    mark_idle();
    mark_not_allowed();
    mark_classes();
    make_whole_numbers();
    return std::move(problem_);
  }

private:
  void split() {
    std::vector<bool> taken(qap_.size(), false);
    for (std::uint32_t r = 0; r < qap_.size(); ++r) {
      if (qap_.free_rank(r)) {
        problem_.ranks.push_back(r);
      } else {
        taken[qap_.pinned[r]] = true;
        fixed_.push_back(r);
      }
    }
    for (std::uint32_t d = 0; d < qap_.size(); ++d) {
      if (!taken[d])
        problem_.devices.push_back(d);
    }
    problem_.n = problem_.ranks.size();
    // Costs are counted in halves, so that both directions of a pair may be added up.
    problem_.unit = 0.5;
    problem_.linear = Matrix(problem_.n);
  }

  void add_term(const Matrix &flow, const Matrix &distance) {
    add_pinned(flow, distance);
    Matrix f = part_of(flow, problem_.ranks);
    Matrix d = part_of(distance, problem_.devices);
    const std::size_t number = problem_.halves.size();
    if (is_symmetric(f) || is_symmetric(d)) {
      problem_.halves.push_back({plus_transposed(f), plus_transposed(d), number});
      return;
    }
    scale(f, 2);
    Matrix f_back = transposed(f);
    Matrix d_back = transposed(d);
    problem_.halves.push_back({std::move(f), std::move(d), number + 1});
    problem_.halves.push_back({std::move(f_back), std::move(d_back), number});
  }

  /// What the free ranks cost with the pinned ones, and everything with itself.
  void add_pinned(const Matrix &flow, const Matrix &distance) {
    for (const std::uint32_t q : fixed_) {
      for (const std::uint32_t r : fixed_)
        problem_.fixed += flow(q, r) * distance(qap_.pinned[q], qap_.pinned[r]);
    }
    for (std::size_t i = 0; i < problem_.n; ++i) {
      const std::uint32_t r = problem_.ranks[i];
      for (std::size_t a = 0; a < problem_.n; ++a) {
        const std::uint32_t d = problem_.devices[a];
        double sum = flow(r, r) * distance(d, d);
        for (const std::uint32_t q : fixed_) {
          const std::uint32_t e = qap_.pinned[q];
          sum += flow(r, q) * distance(d, e) + flow(q, r) * distance(e, d);
        }
        problem_.linear(i, a) += 2 * sum;
      }
    }
  }

  void mark_idle() {
    const auto zero = [](const double *row, std::size_t n) {
      return std::all_of(row, row + n, [](double value) { return value == 0; });
    };
    for (std::size_t i = 0; i < problem_.n; ++i) {
      bool idle = zero(problem_.linear.row(i), problem_.n);
      for (const HalfTerm &half : problem_.halves)
        idle = idle && zero(half.flow.row(i), problem_.n);
      problem_.idle.push_back(idle ? 1 : 0);
    }
    const auto &values = problem_.linear.values;
    if (zero(values.data(), values.size()))
      problem_.linear = Matrix();
  }

  void mark_not_allowed() {
    if (qap_.allowed.empty())
      return;
    problem_.not_allowed.resize(problem_.n * problem_.n);
    for (std::size_t i = 0; i < problem_.n; ++i) {
      for (std::size_t a = 0; a < problem_.n; ++a) {
        const bool may = qap_.allowed.contains(problem_.ranks[i], problem_.devices[a]);
        problem_.not_allowed[i * problem_.n + a] = may ? 0 : 1;
      }
    }
  }

  void mark_classes() {
    problem_.class_of_rank = classes([this](std::size_t i, std::size_t j) {
      return same_rows(i, j) &&
             std::all_of(problem_.halves.begin(), problem_.halves.end(),
                         [&](const HalfTerm &half) { return exchange_keeps(half.flow, i, j); });
    });
    problem_.class_of_device = classes([this](std::size_t a, std::size_t b) {
      return std::all_of(
                 problem_.halves.begin(), problem_.halves.end(),
                 [&](const HalfTerm &half) { return exchange_keeps(half.distance, a, b); }) &&
             same_columns(a, b);
    });
  }

  /// Numbers the classes of a relation that is an equivalence.
  template <class Relation> std::vector<std::uint32_t> classes(const Relation &related) const {
    std::vector<std::uint32_t> class_of(problem_.n);
    std::vector<std::size_t> first;
    for (std::size_t i = 0; i < problem_.n; ++i) {
      std::uint32_t number = 0;
      while (number < first.size() && !related(first[number], i))
        ++number;
      class_of[i] = number;
      if (number == first.size())
        first.push_back(i);
    }
    return class_of;
  }

  [[nodiscard]] bool same_rows(std::size_t i, std::size_t j) const {
    for (std::size_t a = 0; a < problem_.n; ++a) {
      if (problem_.allowed(i, a) != problem_.allowed(j, a) ||
          (problem_.linear.n != 0 && problem_.linear(i, a) != problem_.linear(j, a)))
        return false;
    }
    return true;
  }

  [[nodiscard]] bool same_columns(std::size_t a, std::size_t b) const {
    for (std::size_t i = 0; i < problem_.n; ++i) {
      if (problem_.allowed(i, a) != problem_.allowed(i, b) ||
          (problem_.linear.n != 0 && problem_.linear(i, a) != problem_.linear(i, b)))
        return false;
    }
    return true;
  }

  /// Divides by what all flows, all distances have in common: then 32 bits often suffice.
  void make_whole_numbers() {
    std::vector<double> flows = problem_.linear.values;
    std::vector<double> distances;
    for (const HalfTerm &half : problem_.halves) {
      flows.insert(flows.end(), half.flow.values.begin(), half.flow.values.end());
      distances.insert(distances.end(), half.distance.values.begin(), half.distance.values.end());
    }
    const std::optional<double> of_distances = common_divisor(distances);
    if (!of_distances)
      return;
    const double by_distance = std::max(1.0, *of_distances);
    if (!problem_.linear.values.empty()) {
      // The linear part is a product already: it must be whole after both divisions.
      for (std::size_t i = 0; i < problem_.linear.values.size(); ++i)
        flows[i] /= by_distance;
    }
    const std::optional<double> of_flows = common_divisor(flows);
    if (!of_flows)
      return;
    const double by_flow = std::max(1.0, *of_flows);
    for (HalfTerm &half : problem_.halves) {
      scale(half.flow, 1 / by_flow);
      scale(half.distance, 1 / by_distance);
      round(half.flow);
      round(half.distance);
    }
    scale(problem_.linear, 1 / (by_flow * by_distance));
    round(problem_.linear);
    problem_.unit *= by_flow * by_distance;
    problem_.small_integers = fits();
  }

  static void round(Matrix &matrix) {
    for (double &value : matrix.values)
      value = std::round(value);
  }

  [[nodiscard]] bool fits() const {
    double sums = 4 * largest_entry(problem_.linear);
    for (const HalfTerm &half : problem_.halves) {
      const double widest = largest_entry(half.distance);
      const double flow = largest_row_sum(half.flow) + largest_entry(half.flow);
      sums += 4 * widest * std::max(1.0, flow); // without flows distances are still subtracted
    }
    return sums < largest_sum;
  }

  const Qap &qap_;
  std::vector<std::uint32_t> fixed_; // pinned ranks
  SwapProblem problem_;
};

} // namespace

Assignment SwapProblem::reduced(const Assignment &whole) const {
  std::vector<std::uint32_t> position(whole.size(), Qap::no_pin);
  for (std::uint32_t a = 0; a < n; ++a)
    position[devices[a]] = a;
  Assignment result(n);
  for (std::size_t i = 0; i < n; ++i)
    result[i] = position[whole[ranks[i]]];
  return result;
}

void SwapProblem::expand(std::span<const std::uint32_t> placement, Assignment &whole) const {
  for (std::size_t i = 0; i < n; ++i)
    whole[ranks[i]] = devices[placement[i]];
}

SwapProblem make_swap_problem(const Qap &qap) { return Reduction(qap).run(); }

} // namespace toposeat
