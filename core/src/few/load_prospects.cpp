// SPDX-License-Identifier: MIT OR Apache-2.0
#include "few/load_prospects.hpp"

#include <bit>
#include <span>

#include "few/time_limit.hpp"

namespace toposeat {

LoadProspects::LoadProspects(const LoadProblem &problem, const std::vector<std::uint32_t> &order,
                             std::size_t talking, const SmallTable &bytes, const TimeLimit *limit)
    : problem_(problem), order_(order), talking_(talking), bytes_(bytes), limit_(limit),
      terms_(problem.network), lines_((order.size() - last_ranks) * terms_.shared().terms(), 0.0),
      rows_((order.size() - last_ranks) * small_width * terms_.shared().terms(), DeviceLine{}) {}

void LoadProspects::start(std::uint32_t devices) {
  for (std::size_t p = 0; p < order_.size(); ++p) {
    DeviceLine &floor = prospects_[0][p].lone;
    floor.fill(unlimited);
    for (std::uint32_t set = devices; set != 0; set &= set - 1) {
      const auto d = static_cast<std::uint32_t>(std::countr_zero(set));
      if (d >= problem_.network.devices) // stands in for one: nobody who talks may use it
        floor[d] = p < talking_ ? unlimited : 0;
      else if (order_[p] >= problem_.network.devices || problem_.may_use(order_[p], d))
        floor[d] = p < talking_ ? problem_.floors.congestion(order_[p], d) : 0;
    }
    prospects_[0][p].most = floor;
  }
}

void LoadProspects::settle(std::size_t depth, std::uint32_t device, std::uint32_t open) {
  const std::size_t terms = terms_.shared().terms();
  const Prospects &expected = prospects_[depth];
  Prospects &expects = prospects_[depth + 1];
  std::array<LoadRow, small_width> rows;
  const std::size_t left = order_.size() - depth - 1;
  for (std::size_t i = 0; i < left; ++i) {
    const std::size_t q = depth + 1 + i;
    rows[i] = {rows_.data() + row(depth, q),
               rows_.data() + row(depth + 1, q),
               &expected[q],
               &expects[q],
               bytes_[q][depth],
               bytes_[depth][q]};
  }
  DeviceLine filled;
  for (std::size_t d = 0; d < small_width; ++d)
    filled[d] = static_cast<double>(open >> d & 1U);
  double *line = lines_.data() + depth * terms;
  settle_(std::span(rows).first(left), {&terms_, device, rows_.data() + row(depth, depth),
                                        &expected[depth], line, line + terms, &filled});
  for (std::size_t q = depth + 1; limit_ != nullptr && q < order_.size(); ++q) {
    for (std::uint32_t slow = open & ~devices_beside(depth, device, q); slow != 0;
         slow &= slow - 1) {
      const auto d = static_cast<std::size_t>(std::countr_zero(slow));
      expects[q].lone[d] = expects[q].most[d] = unlimited;
    }
  }
}

BeforeFour LoadProspects::before_four(std::size_t depth, std::uint32_t device) const {
  BeforeFour here;
  here.placed = lines_.data() + depth * terms_.shared().terms();
  here.rows = rows_.data() + row(depth, 0);
  here.expected = prospects_[depth].data();
  here.device = device;
  return here;
}

std::uint32_t LoadProspects::devices_beside(std::size_t depth, std::uint32_t device,
                                            std::size_t later) const {
  return limit_ == nullptr ? ~0U : limit_->devices_beside(order_[depth], device, order_[later]);
}

} // namespace toposeat
