// SPDX-License-Identifier: MIT OR Apache-2.0
#include "search/swap_table.hpp"

#include <algorithm>

#include "search/swap_kernel.hpp"

namespace toposeat {

template <class Number>
SwapTable<Number>::SwapTable(const SwapProblem &problem)
    : n_(problem.n), stride_((problem.n + kernel_lanes - 1) / kernel_lanes * kernel_lanes),
      not_allowed_(problem.not_allowed), class_of_rank_(problem.class_of_rank),
      class_of_device_(problem.class_of_device), any_for_good_(false), placement_(problem.n),
      products_(n_ * stride_), delta_(n_ * stride_), barred_(n_ * stride_, never),
      bar_of_rank_(n_ * n_), bar_of_device_(n_ * n_), own_(n_), u_(most_halves * stride_),
      v_(most_halves * stride_), row_(stride_), least_free_(n_), least_any_(n_) {
  load(problem);
}

template <class Number> void SwapTable<Number>::load(const SwapProblem &problem) {
  const auto padded = [this](const Matrix &matrix) {
    std::vector<Number> rows(n_ * stride_);
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = 0; j < n_; ++j)
        rows[i * stride_ + j] = static_cast<Number>(matrix(i, j));
    }
    return rows;
  };
  for (const HalfTerm &half : problem.halves)
    halves_.push_back({padded(half.flow), padded(half.distance), half.mate});
  const auto repeated = [](const std::vector<std::uint32_t> &class_of) {
    return !class_of.empty() &&
           *std::max_element(class_of.begin(), class_of.end()) + 1 < class_of.size();
  };
  any_for_good_ = !not_allowed_.empty() || repeated(class_of_rank_) || repeated(class_of_device_);
  for (const double value : problem.linear.values)
    linear_.push_back(static_cast<Number>(value));
}

template <class Number> void SwapTable<Number>::reset(const Assignment &placement) {
  placement_ = placement;
  std::fill(bar_of_rank_.begin(), bar_of_rank_.end(), Number{0});
  std::fill(bar_of_device_.begin(), bar_of_device_.end(), Number{0});
  refresh();
  for (std::size_t i = 0; i < n_; ++i)
    fresh_bars(i, i + 1);
}

template <class Number> void SwapTable<Number>::refresh() {
  fill_products();
  for (std::size_t i = 0; i < n_; ++i)
    fresh_deltas(i, i + 1);
}

template <class Number> void SwapTable<Number>::fill_products() {
  std::fill(products_.begin(), products_.end(), Number{0});
  std::vector<Number> row(stride_);
  for (const Half &half : halves_) {
    const Half &mate = halves_[half.mate];
    for (std::size_t k = 0; k < n_; ++k) {
      // Column of the distances to the device of k, in the order of the ranks that sit there.
      const Number *to_k = mate.distance.data() + placement_[k] * stride_;
      for (std::size_t j = 0; j < n_; ++j)
        row[j] = to_k[placement_[j]];
      const Number *with_k = mate.flow.data() + k * stride_;
      const Number *rows = row.data();
      for (std::size_t i = 0; i < n_; ++i) {
        if (with_k[i] == 0)
          continue;
        Number *const sum = products_.data() + i * stride_;
        for (std::size_t j = 0; j < stride_; ++j)
          sum[j] += with_k[i] * rows[j];
      }
    }
  }
  double pairs = 0;
  double alone = 0;
  for (std::size_t i = 0; i < n_; ++i)
    pairs += static_cast<double>(products_[i * stride_ + i]);
  for (std::size_t i = 0; i < n_ && !linear_.empty(); ++i) {
    alone += static_cast<double>(linear_[i * n_ + placement_[i]]);
    for (std::size_t j = 0; j < n_; ++j)
      products_[i * stride_ + j] += linear_[i * n_ + placement_[j]];
  }
  cost_ = pairs / 2 + alone;
  for (std::size_t i = 0; i < n_; ++i)
    own_[i] = products_[i * stride_ + i];
}

/// The deltas of i with all ranks from `first` on.
template <class Number> void SwapTable<Number>::fresh_deltas(std::size_t i, std::size_t first) {
  const Number *const a_i = products_.data() + i * stride_;
  for (std::size_t k = first; k < n_; ++k)
    row_[k] = a_i[k] + products_[k * stride_ + i] - own_[i] - own_[k];
  // What i and k pay for each other is in a(., .) as if the other did not move.
  for (std::size_t h = 0; h < halves_.size(); h = halves_[h].mate + 1) {
    const Half &half = halves_[h];
    const Half &mate = halves_[half.mate];
    const Number *const flow = half.flow.data() + i * stride_;
    const Number *const flow_back = mate.flow.data() + i * stride_;
    const Number *const to = half.distance.data() + placement_[i] * stride_;
    const Number *const from = mate.distance.data() + placement_[i] * stride_;
    if (half.mate == h) {
      for (std::size_t k = first; k < n_; ++k)
        row_[k] += 2 * flow[k] * to[placement_[k]];
    } else {
      for (std::size_t k = first; k < n_; ++k)
        row_[k] += (flow[k] + flow_back[k]) * (to[placement_[k]] + from[placement_[k]]);
    }
  }
  for (std::size_t k = first; k < i; ++k)
    delta_[k * stride_ + i] = row_[k];
  for (std::size_t k = std::max(first, i + 1); k < n_; ++k)
    delta_[i * stride_ + k] = row_[k];
}

template <class Number> bool SwapTable<Number>::may_exchange(std::size_t i, std::size_t j) const {
  if (class_of_rank_[i] == class_of_rank_[j] ||
      class_of_device_[placement_[i]] == class_of_device_[placement_[j]])
    return false;
  return not_allowed_.empty() ||
         (not_allowed_[i * n_ + placement_[j]] == 0 && not_allowed_[j * n_ + placement_[i]] == 0);
}

/// A pair is barred as long as both of its ranks would go back to where they were.
template <class Number> void SwapTable<Number>::fresh_bars(std::size_t i, std::size_t first) {
  const Number *const to = bar_of_rank_.data() + i * n_;
  const Number *const from = bar_of_device_.data() + placement_[i] * n_;
  for (std::size_t k = first; k < n_; ++k)
    row_[k] = std::min(to[placement_[k]], from[k]);
  for (std::size_t k = first; any_for_good_ && k < n_; ++k)
    row_[k] = may_exchange(i, k) ? row_[k] : never;
  for (std::size_t k = first; k < i; ++k)
    barred_[k * stride_ + i] = row_[k];
  for (std::size_t k = std::max(first, i + 1); k < n_; ++k)
    barred_[i * stride_ + k] = row_[k];
}

/// u and v so that a(., .) changes by u v when i and j exchange their devices.
template <class Number> void SwapTable<Number>::differences(std::size_t i, std::size_t j) {
  for (std::size_t h = 0; h < halves_.size(); ++h) {
    const Half &mate = halves_[halves_[h].mate];
    const Number *flow_i = mate.flow.data() + i * stride_;
    const Number *flow_j = mate.flow.data() + j * stride_;
    const Number *to_i = mate.distance.data() + placement_[i] * stride_;
    const Number *to_j = mate.distance.data() + placement_[j] * stride_;
    Number *const u = u_.data() + h * stride_;
    Number *const v = v_.data() + h * stride_;
    for (std::size_t k = 0; k < stride_; ++k)
      u[k] = flow_i[k] - flow_j[k];
    for (std::size_t k = 0; k < n_; ++k)
      v[k] = to_j[placement_[k]] - to_i[placement_[k]];
    std::swap(v[i], v[j]); // in the order after the exchange
  }
}

template <class Number> void SwapTable<Number>::swap_columns(std::size_t i, std::size_t j) {
  for (std::size_t k = 0; k < n_; ++k)
    std::swap(products_[k * stride_ + i], products_[k * stride_ + j]);
}

template <class Number>
void SwapTable<Number>::exchange(std::size_t i, std::size_t j, Number until_i, Number until_j) {
  cost_ += static_cast<double>(delta(i, j));
  differences(i, j);
  KernelRows<Number> rows{n_, stride_, halves_.size(), {}, {}};
  for (std::size_t h = 0; h < halves_.size(); ++h) {
    rows.u[h] = u_.data() + h * stride_;
    rows.v[h] = v_.data() + h * stride_;
  }
  swap_columns(i, j);
  add_products(rows, products_.data());
  update_deltas(rows, delta_.data());
  for (const auto &[rank, until] : {std::pair(i, until_i), std::pair(j, until_j)}) {
    bar_of_rank_[rank * n_ + placement_[rank]] = until;
    bar_of_device_[placement_[rank] * n_ + rank] = until;
  }
  std::swap(placement_[i], placement_[j]);
  for (std::size_t k = 0; k < n_; ++k)
    own_[k] = products_[k * stride_ + k];
  for (const std::size_t rank : {i, j}) {
    fresh_deltas(rank, 0);
    fresh_bars(rank, 0);
  }
}

template <class Number>
auto SwapTable<Number>::find(Number least, Number until, std::span<const Number> minima,
                             std::uint64_t tie) const -> Pair {
  const auto equal = static_cast<std::uint64_t>(std::count(minima.begin(), minima.end(), least));
  std::uint64_t skip = (tie >> 32) % equal;
  std::size_t i = 0;
  while (minima[i] != least || skip-- > 0)
    ++i;
  const Number *const value = delta_.data() + i * stride_;
  const Number *const end = barred_.data() + i * stride_;
  std::uint64_t found = 0;
  for (std::size_t j = i + 1; j < n_; ++j)
    found += value[j] == least && end[j] <= until ? 1U : 0U;
  skip = (tie & 0xffffffffU) % found;
  for (std::size_t j = i + 1;; ++j) {
    if (value[j] == least && end[j] <= until && skip-- == 0)
      return {i, j, least, true};
  }
}

template <class Number>
auto SwapTable<Number>::best(Number now, Number any_below, std::uint64_t tie) -> Pair {
  row_minima(n_, stride_, delta_.data(), barred_.data(), now, never, least_free_.data(),
             least_any_.data());
  const Number least_any = *std::min_element(least_any_.begin(), least_any_.end());
  const Number least_free = *std::min_element(least_free_.begin(), least_free_.end());
  if (least_any < any_below && least_any < least_free)
    return find(least_any, long_barred, least_any_, tie);
  if (least_free == never)
    return {};
  return find(least_free, now, least_free_, tie);
}

template class SwapTable<std::int32_t>;
template class SwapTable<double>;

} // namespace toposeat
