// Fuzz target: any bytes become a machine, a traffic and a request; the answer must hold water.
//
// Built as a test with a driver of its own (below): a number of pseudo-random inputs. With a clang
// that has libFuzzer: -DTOPOSEAT_LIBFUZZER and -fsanitize=fuzzer,address,undefined.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <stdexcept>
#include <vector>

#include "base/rng.hpp"
#include "request_checks.hpp"
#include "toposeat/certificate/solve.hpp"
#include "toposeat/flow/flow.hpp"

using namespace toposeat;
using toposeat::testing::seating_fault;
using toposeat::testing::value_of;

namespace {

/// Reads choices off the input; zeros when it is used up.
class Source {
public:
  Source(const std::uint8_t *data, std::size_t size) : data_(data), size_(size) {
    constexpr std::uint32_t one_in[] = {0, 0, 60, 250}; // many inputs must get past the checks
    odd_one_in_ = one_in[below(std::size(one_in))];
    wide_ = chance(3);
  }

  std::uint32_t below(std::uint32_t bound) { return bound == 0 ? 0 : byte() % bound; }
  bool chance(std::uint32_t one_in) { return below(one_in) == 1; }

  /// Mostly sane, now and then what breaks arithmetic.
  double number() {
    constexpr double inf = std::numeric_limits<double>::infinity();
    static const double odd[] = {0,      -1,     inf,   -inf, std::nan(""), 1e308,
                                 1e-308, 5e-324, 1e300, 1e18, 9.1e15,       1e-30};
    if (odd_one_in_ != 0 && chance(odd_one_in_))
      return odd[below(std::size(odd))];
    const int exponent =
        wide_ ? static_cast<int>(below(180)) - 95 : static_cast<int>(below(40)) - 10;
    return std::ldexp(1.0 + below(256), exponent);
  }

private:
  std::uint8_t byte() { return at_ < size_ ? data_[at_++] : std::uint8_t{0}; }

  const std::uint8_t *data_;
  std::size_t size_;
  std::size_t at_ = 0;
  std::uint32_t odd_one_in_ = 0; // 0: never
  bool wide_ = false;            // 60 orders of magnitude
};

/// What pairs of devices have beyond links, caps and latencies.
void add_limits_and_curves(Source &source, Network &network) {
  const std::size_t pairs = network.cap.size();
  if (source.chance(4)) {
    for (std::uint32_t i = source.below(4); i > 0; --i)
      network.pair_limits.push_back(source.number());
    for (std::size_t pair = 0; pair < pairs; ++pair)
      network.limit_of_pair.push_back(
          static_cast<std::int32_t>(
              source.below(static_cast<std::uint32_t>(network.pair_limits.size()) + 1)) -
          1);
  }
  if (!source.chance(4))
    return;
  SizeCurve curve;
  double size = 0;
  double least = 1e30;
  for (std::uint32_t i = 1 + source.below(3); i > 0; --i) {
    size += source.number();
    curve.push_back({size, source.number(), source.number()});
    least = std::min(least, curve.back().latency);
  }
  network.curves.push_back(curve);
  for (std::size_t pair = 0; pair < pairs; ++pair) {
    network.curve_of_pair.push_back(source.chance(2) ? 0 : none_of_pair);
    if (network.curve_of_pair.back() == 0)
      network.latency[pair] = least;
  }
}

Network network_from(Source &source) {
  Network network;
  network.devices = 1 + source.below(source.chance(4) ? 18 : 7);
  const std::uint32_t links = source.below(12);
  for (std::uint32_t i = 0; i < links; ++i) {
    const double speed = source.number();
    network.links.push_back({speed, source.chance(4) ? source.number() : speed,
                             source.chance(4) ? source.number() : unlimited});
  }
  network.route_begin.push_back(0);
  for (std::uint32_t a = 0; a < network.devices; ++a) {
    for (std::uint32_t b = 0; b < network.devices; ++b) {
      for (std::uint32_t hops = a == b ? 0 : source.below(4); hops > 0 && links > 0; --hops)
        network.route_uses.push_back(
            {source.below(links + (source.chance(200) ? 1 : 0)), source.chance(2)});
      network.route_begin.push_back(static_cast<std::uint32_t>(network.route_uses.size()));
      network.cap.push_back(source.chance(3) ? source.number() : unlimited);
      network.latency.push_back(source.chance(2) ? 0 : source.number());
    }
  }
  add_limits_and_curves(source, network);
  network.validate();
  return network;
}

RankTraffic traffic_from(Source &source) {
  RankTraffic traffic;
  traffic.ranks = source.below(source.chance(4) ? 24 : 8);
  const std::uint32_t density = 1 + source.below(8);
  for (std::uint32_t a = 0; a < traffic.ranks; ++a) {
    for (std::uint32_t b = 0; b < traffic.ranks; ++b) {
      if ((a != b || source.chance(200)) && source.below(density) == 0)
        traffic.flows.push_back({a, b, source.number(), source.number()});
    }
  }
  if (source.chance(3)) {
    for (Flow &flow : traffic.flows)
      flow.rounds = source.chance(4) ? source.number() : flow.messages;
  }
  traffic.validate();
  return traffic;
}

Matrix matrix_from(Source &source, std::uint32_t size) {
  Matrix matrix(size);
  const bool symmetric = source.chance(2);
  for (std::uint32_t i = 0; i < size; ++i) {
    for (std::uint32_t j = 0; j < size; ++j)
      matrix(i, j) = symmetric && j < i ? matrix(j, i) : source.number();
  }
  return matrix;
}

void add_constraints(Source &source, MapRequest &request) {
  const std::uint32_t devices = request.network->devices;
  if (source.chance(3)) {
    for (std::uint32_t d = 0; d < devices; ++d) {
      if (!source.chance(4))
        request.devices.push_back(source.chance(100) ? source.below(30) : d);
    }
  }
  const std::size_t usable = request.devices.empty() ? devices : request.devices.size();
  if (source.chance(2)) {
    for (std::size_t d = 0; d < usable; ++d)
      request.slots.push_back(source.below(4));
  }
  if (source.chance(3)) {
    for (std::uint32_t r = 0; r < request.traffic->ranks; ++r)
      request.pinned.push_back(source.chance(5) ? source.below(devices + 1) : no_pin);
  }
  if (source.chance(3)) {
    for (std::uint32_t r = 0; r < request.traffic->ranks; ++r) {
      request.allowed.emplace_back();
      for (std::uint32_t some = source.below(4); some > 0; --some)
        request.allowed.back().push_back(source.below(devices));
    }
  }
  if (source.chance(3)) {
    for (std::uint32_t d = 0; d < devices; ++d)
      request.host_of_device.push_back(source.below(3));
  }
}

constexpr double slack = 1 + 1e-6;

void require(bool holds, const char *what) {
  if (holds)
    return;
  std::fprintf(stderr, "fuzz_solve: %s\n", what);
  std::abort();
}

void check_seats(const MapRequest &request, const Assignment &placement) {
  const char *const fault = seating_fault(request, placement);
  require(fault == nullptr, fault);
}

/// Where there are few placements: none is below the bound, which of a proved answer is its value.
void check_bound(const MapRequest &request, double bound) {
  constexpr double most_placements = 300;
  const std::uint32_t ranks = request.traffic->ranks;
  const std::uint32_t devices = request.network->devices;
  if (std::pow(devices, ranks) > most_placements)
    return;
  Assignment placement(ranks, 0);
  for (;;) {
    if (seating_fault(request, placement) == nullptr)
      require(bound <= value_of(request, placement) * slack, "a placement is below the bound");
    std::uint32_t rank = 0; // counts in base `devices`
    while (rank < ranks && ++placement[rank] == devices)
      placement[rank++] = 0;
    if (rank == ranks)
      return;
  }
}

void check_answer(const MapRequest &request, const MapAnswer &answer) {
  check_seats(request, answer.device_of_rank);
  const Assignment home = default_assignment(request);
  check_seats(request, home);
  const double value = value_of(request, answer.device_of_rank);
  require(std::isfinite(value), "the value is not a number");
  require(std::abs(answer.value - value) <= 1e-6 * value, "the value is wrong");
  require(!answer.lower_bound || *answer.lower_bound <= value * slack, "the bound is above");
  require(!answer.lower_bound || *answer.lower_bound <= value_of(request, home) * slack,
          "the bound is above the default");
  if (answer.lower_bound)
    check_bound(request, answer.proved ? answer.value : *answer.lower_bound);
  if (request.method == Method::random)
    return;
  require(value <= value_of(request, home) * slack, "worse than the default");
  require(flow_time(*request.network, *request.traffic, answer.device_of_rank) <=
              flow_time(*request.network, *request.traffic, home) * slack,
          "slower than the default");
}

/// Whether there was an answer; a clear refusal is none.
bool run_one(const std::uint8_t *data, std::size_t size) {
  Source source(data, size);
  try {
    const Network network = network_from(source);
    const RankTraffic traffic = traffic_from(source);
    MapRequest request{network, traffic, matrix_from(source, network.devices)};
    if (source.chance(3))
      request.message_cost = matrix_from(source, network.devices);
    add_constraints(source, request);
    request.objective = static_cast<Objective>(source.below(3));
    constexpr Method methods[] = {Method::automatic, Method::exact, Method::search,
                                  Method::keep_default, Method::random};
    request.method = methods[source.below(std::size(methods))];
    request.seed = source.below(256);
    request.budget_s = 0.02;
    const std::clock_t begin = std::clock(); // of this process: it may be stopped for a while
    const MapAnswer answer = solve(request);
    const auto took = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    require(took < 60, "it took a minute"); // of a budget of 20 ms
    check_answer(request, answer);
    return true;
  } catch (const std::invalid_argument &) {
    return false;
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  run_one(data, size);
  return 0;
}

#ifndef TOPOSEAT_LIBFUZZER
/// fuzz_solve [INPUTS [FIRST_SEED [verbose]]]: inputs of the generator, one seed after the other.
int main(int argc, char **argv) {
  const std::uint64_t inputs = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000;
  const std::uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  std::uint64_t answered = 0;
  for (std::uint64_t seed = first; seed < first + inputs; ++seed) {
    Rng rng(seed);
    std::vector<std::uint8_t> input(64 + rng.below(4000));
    for (std::uint8_t &each : input)
      each = static_cast<std::uint8_t>(rng.next() >> 56);
    if (argc > 3)
      std::fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(seed));
    answered += run_one(input.data(), input.size()) ? 1 : 0;
  }
  std::printf("%llu inputs, %llu of them answered, none broke a promise\n",
              static_cast<unsigned long long>(inputs), static_cast<unsigned long long>(answered));
  return answered > 0 ? 0 : 1; // a generator whose inputs are all refused tests nothing
}
#endif
