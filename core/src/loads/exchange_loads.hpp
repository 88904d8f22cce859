// What an exchange of two ranks does to the loads of all links, without making it.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "toposeat/problem/network.hpp"
#include "toposeat/problem/qap.hpp"

namespace toposeat {

/// Of one placement: see congestion.hpp.
struct LoadFigures {
  double max_s = 0;
  double mean_s = 0;
  double over_s = 0; // what all links together have above a limit
};

/// Stands on a placement (of all ranks, silent ones included) and looks at those around it.
class ExchangeLoads {
public:
  ExchangeLoads() = default;
  ExchangeLoads(const ExchangeLoads &) = delete;
  ExchangeLoads &operator=(const ExchangeLoads &) = delete;
  virtual ~ExchangeLoads() = default;

  virtual void stand_on(const Assignment &placement) = 0;
  [[nodiscard]] virtual LoadFigures here() const = 0;
  /// After ranks r and s, both within the Qap's size and different, have exchanged their devices.
  virtual LoadFigures exchanged(std::size_t r, std::size_t s) = 0;
};

/// All must outlive the result. On trees an exchange costs a few numbers per link between the two
/// devices, elsewhere as much as the flows of the two ranks.
std::unique_ptr<ExchangeLoads> exchange_loads(const Network &network, const RankTraffic &traffic,
                                              const Qap &qap, double limit_s);

} // namespace toposeat
