// SPDX-License-Identifier: MIT OR Apache-2.0
#include "few/lone_flows.hpp"

#include <algorithm>
#include <numeric>

#include "flow/message_times.hpp"
#include "toposeat/loads/floors.hpp"
#include "toposeat/problem/qap.hpp"

namespace toposeat {

LoneFlows::LoneFlows(const Network &network, const RankTraffic &traffic) : network_(network) {
  std::vector<std::uint32_t> order(traffic.flows.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const double messages_a = traffic.flows[a].messages;
    const double messages_b = traffic.flows[b].messages;
    return messages_a > messages_b || (messages_a == messages_b && a < b);
  });
  const MessageTimes messages(network, traffic);
  const Matrix lone = lone_rates(network);
  flows_.reserve(order.size());
  alone_.reserve(order.size() * pairs());
  for (const std::uint32_t number : order) {
    const Flow &flow = traffic.flows[number];
    flows_.push_back(flow);
    for (std::size_t each = 0; each < pairs(); ++each) {
      const MessageTime time = messages.of(number, each);
      const double rate = std::min(time.rate, lone.values[each]);
      alone_.push_back(
          {time.latency, rate, time.latency + (flow.bytes > 0 ? flow.bytes / rate : 0)});
    }
  }
  list_constraints();
}

void LoneFlows::list_constraints() {
  PairConstraints known(network_);
  begin_.push_back(0);
  for (std::uint32_t a = 0; a < network_.devices; ++a) {
    for (std::uint32_t b = 0; b < network_.devices; ++b) {
      const auto elements = known.elements(known.of(a, b));
      elements_.insert(elements_.end(), elements.begin(), elements.end());
      begin_.push_back(elements_.size());
    }
  }
  for (const PairConstraints::Constraint &each : known.known())
    capacities_.push_back(each.capacity);
}

} // namespace toposeat
