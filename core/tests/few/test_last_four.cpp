// The kernels of the last four ranks, against what they are to compute, written out one by one.
// Numbers are whole, so that sums are exact in any order.
// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <vector>

#include "catch.hpp"
#include "few/last_four.hpp"
#include "few/own_links.hpp"
#include "toposeat/base/rng.hpp"

using namespace toposeat;

namespace {

constexpr std::size_t first = 4; // of the last four, behind four that are placed

/// A machine of eight devices with random terms, ranks that exchange something, the first four of
/// them placed, the latest of these on `loads.device`.
struct Scene {
  Scene(std::size_t terms, Rng &rng, const FourKernels &chosen)
      : kernels(chosen), table(terms), placed(terms), lines(5, Lines(terms)) {
    for (std::size_t term = 0; term < terms; ++term) {
      placed[term] = rng.below(50);
      for (Lines &of_rank : lines)
        fill(of_rank[term], rng);
      const bool used = rng.below(4) != 0; // by the four among themselves
      for (std::size_t a = 0; a < small_width; ++a) {
        for (std::size_t b = 0; b < small_width; ++b) {
          if (a != b && used && rng.below(3) == 0)
            table.add(term, a, b, 1.0 + rng.below(5));
        }
      }
    }
    for (std::size_t rank = 0; rank < small_width; ++rank) {
      fill(bytes[rank], rng);
      bytes[rank][rank] = 0; // nobody sends to itself
    }
    std::vector<std::uint32_t> order = rng.permutation(small_width);
    std::sort(order.begin(), order.begin() + last_ranks);
    std::copy_n(order.begin(), last_ranks, loads.devices.begin());
    loads.device = order[last_ranks];
    among.resize(terms);
    for (std::size_t term = 0; term < terms; ++term)
      kernels.fill_among(table, term, bytes_by_seats(bytes, first), loads.devices, among[term]);
    loads.terms = terms;
    loads.placed = placed.data();
    loads.latest_row = lines[last_ranks].data();
    loads.leaving = table.leaving(loads.device);
    loads.entering = table.entering(loads.device);
    for (std::size_t k = 0; k < last_ranks; ++k) {
      loads.rows[k] = lines[k].data();
      loads.sent[k] = bytes[first + k][first - 1];
      loads.received[k] = bytes[first - 1][first + k];
    }
    loads.among = among.data();
  }

  static void fill(DeviceLine &line, Rng &rng) {
    for (double &each : line)
      each = rng.below(3) == 0 ? 0 : rng.below(20);
  }

  [[nodiscard]] std::uint32_t seat(std::size_t way, std::size_t k) const {
    return loads.devices[last_seat(way, k)];
  }

  [[nodiscard]] double pace(std::size_t term, std::size_t from, std::size_t to) const {
    return table.leaving(from)[term][to];
  }

  [[nodiscard]] double among_themselves(std::size_t term, std::size_t way) const {
    double sum = 0;
    for (std::size_t k = 0; k < last_ranks; ++k) {
      for (std::size_t l = 0; l < last_ranks; ++l) {
        if (k != l)
          sum += bytes[first + k][first + l] * pace(term, seat(way, k), seat(way, l));
      }
    }
    return sum;
  }

  /// Of a term, with all eight ranks on their devices.
  [[nodiscard]] double sum(std::size_t term, std::size_t way) const {
    double all = placed[term] + lines[last_ranks][term][loads.device] + among_themselves(term, way);
    for (std::size_t k = 0; k < last_ranks; ++k) {
      const std::uint32_t here = seat(way, k);
      all += lines[k][term][here];
      all += bytes[first + k][first - 1] * pace(term, here, loads.device);
      all += bytes[first - 1][first + k] * pace(term, loads.device, here);
    }
    return all;
  }

  using Lines = std::vector<DeviceLine>;

  FourKernels kernels;
  TermTable table;
  SmallTable bytes{};
  std::vector<double> placed;
  std::vector<Lines> lines; // of the last four and of the latest: [term]
  std::vector<Ways> among;
  FourLoads loads;
};

/// All kernels that this processor can run, each so often.
std::vector<FourKernels> repeated(std::size_t times) {
  std::vector<FourKernels> all;
  for (const FourKernels &each : every_four_kernels())
    all.insert(all.end(), times, each);
  return all;
}

} // namespace

TEST_CASE("the ways to seat four are all orders, four in a row rotations of each other", "[four]") {
  std::set<std::array<std::size_t, last_ranks>> seen;
  for (std::size_t way = 0; way < last_ways; ++way) {
    std::array<std::size_t, last_ranks> seats{};
    for (std::size_t k = 0; k < last_ranks; ++k) {
      seats[k] = last_seat(way, k);
      CHECK(seats[k] == (last_seat(way - way % last_ranks, k) + way % last_ranks) % last_ranks);
    }
    seen.insert(seats);
    std::sort(seats.begin(), seats.end());
    CHECK(seats == std::array<std::size_t, last_ranks>{0, 1, 2, 3});
  }
  CHECK(seen.size() == last_ways);
}

TEST_CASE("every set of four devices of eight has a number of its own", "[four]") {
  std::set<std::size_t> numbers;
  for (std::uint32_t a = 0; a < 8; ++a) {
    for (std::uint32_t b = a + 1; b < 8; ++b) {
      for (std::uint32_t c = b + 1; c < 8; ++c) {
        for (std::uint32_t d = c + 1; d < 8; ++d)
          numbers.insert(number_of({a, b, c, d}));
      }
    }
  }
  CHECK(numbers.size() == four_sets);
  CHECK(*numbers.rbegin() == four_sets - 1);
}

TEST_CASE("what depends on pairs of the four is joined in every way", "[four]") {
  const auto number = [](std::size_t k, std::size_t a, std::size_t l, std::size_t b) {
    return static_cast<double>((7 * k + 5 * a + 3 * l + 11 * b) % 13);
  };
  const Ways sums = over_pairs(number, [](double one, double other) { return one + other; });
  const Ways most =
      over_pairs(number, [](double one, double other) { return std::max(one, other); });
  for (std::size_t way = 0; way < last_ways; ++way) {
    double sum = 0;
    double largest = 0;
    for (std::size_t k = 1; k < last_ranks; ++k) {
      for (std::size_t l = 0; l < k; ++l) {
        const double each = number(k, last_seat(way, k), l, last_seat(way, l));
        sum += each;
        largest = std::max(largest, each);
      }
    }
    CHECK(sums[way] == sum);
    CHECK(most[way] == largest);
  }
}

TEST_CASE("what the four exchange on pairs of devices is joined in every way", "[four]") {
  Rng rng(47);
  for (const FourKernels &kernels : repeated(20)) {
    const Scene scene(1, rng, kernels);
    SmallTable costs{};
    std::array<LonePaces, small_width> own{};
    for (std::size_t a = 0; a < small_width; ++a) {
      Scene::fill(costs[a], rng);
      for (DeviceLine *line : {&own[a].leaving, &own[a].entering, &own[a].both})
        Scene::fill(*line, rng);
    }
    const SeatBytes bytes = bytes_by_seats(scene.bytes, first);
    Ways cost;
    Ways sum;
    Ways most;
    for (Ways *each : {&cost, &sum, &most})
      each->fill(6);
    scene.kernels.add_costs(costs, bytes, scene.loads.devices, cost);
    scene.kernels.add_own(own, bytes, scene.loads.devices, sum);
    scene.kernels.raise_to_own(own, bytes, scene.loads.devices, most);
    for (std::size_t way = 0; way < last_ways; ++way) {
      double all_costs = 6;
      double all_seconds = 6;
      double largest = 6;
      for (std::size_t k = 0; k < last_ranks; ++k) {
        for (std::size_t l = 0; l < last_ranks; ++l) {
          const std::uint32_t from = scene.seat(way, k);
          const std::uint32_t to = scene.seat(way, l);
          const double sent = scene.bytes[first + k][first + l];
          const double received = scene.bytes[first + l][first + k];
          all_costs += k == l ? 0 : sent * costs[from][to];
          if (from >= to) // each link once, seen by the lesser device
            continue;
          const double seconds = OwnLinks::seconds(own[from], to, sent, received);
          all_seconds += seconds;
          largest = std::max(largest, seconds);
        }
      }
      CHECK(cost[way] == all_costs);
      CHECK(sum[way] == all_seconds);
      CHECK(most[way] == largest);
    }
  }
}

TEST_CASE("sums of the last four are those of all ranks on their devices", "[four]") {
  Rng rng(44);
  for (const FourKernels &kernels : repeated(20)) {
    const Scene scene(1 + rng.below(12), rng, kernels);
    const FourLoads &loads = scene.loads;
    SmallTable rows{};
    for (DeviceLine &line : rows)
      Scene::fill(line, rng);
    const Ways one = scene.kernels.one_sum(3, rows, first, loads.devices, scene.among[0]);
    for (std::size_t way = 0; way < last_ways; ++way) {
      for (std::size_t term = 0; term < loads.terms; ++term)
        CHECK(scene.among[term][way] == scene.among_themselves(term, way));
      double sum = 3 + scene.among[0][way];
      for (std::size_t k = 0; k < last_ranks; ++k)
        sum += rows[first + k][scene.seat(way, k)];
      CHECK(one[way] == sum);
    }
  }
}

TEST_CASE("the largest of the sums is raised until no way is below the limit", "[four]") {
  Rng rng(45);
  for (const FourKernels &kernels : repeated(40)) {
    const Scene scene(1 + rng.below(12), rng, kernels);
    const std::size_t terms = scene.loads.terms;
    const std::vector<std::uint32_t> order = rng.permutation(terms);
    FourByFour expected;
    Ways before;
    for (auto &of_rank : expected) {
      for (double &each : of_rank)
        each = rng.below(300);
    }
    for (double &each : before)
      each = rng.below(300);
    // Largest of what is known before the first term, the second, ... and behind the last.
    std::vector<Ways> most(terms + 1, before);
    for (std::size_t way = 0; way < last_ways; ++way) {
      for (std::size_t k = 0; k < last_ranks; ++k)
        most[0][way] = std::max(most[0][way], expected[k][last_seat(way, k)]);
      for (std::size_t i = 0; i < terms; ++i)
        most[i + 1][way] = std::max(most[i][way], scene.sum(order[i], way));
    }
    const auto least = [&](std::size_t i) {
      return *std::min_element(most[i].begin(), most[i].end());
    };
    for (const double limit : {unlimited, least(terms) + 1, least(terms), least(terms / 2), 0.0}) {
      Ways raised = before;
      const std::size_t end =
          scene.kernels.raise_to_largest(scene.loads, order.data(), expected, limit, raised);
      if (least(terms) < limit) {
        CHECK(end > terms);
        CHECK(raised == most[terms]);
      } else {
        REQUIRE(end <= terms);
        CHECK((end == terms || end % terms_at_once == 0));
        CHECK(least(end) >= limit);
        CHECK((end < terms_at_once || least(end - terms_at_once) < limit || end == terms));
      }
    }
  }
}

TEST_CASE("the seconds of links are added up in every way", "[four]") {
  Rng rng(46);
  for (const FourKernels &kernels : repeated(20)) {
    const Scene scene(2 * (1 + rng.below(6)), rng, kernels);
    std::vector<LinkPaces> paces(scene.loads.terms / 2);
    for (LinkPaces &each : paces)
      each = {1.0 + rng.below(4), 1.0 + rng.below(4), rng.below(2) == 0 ? 0.0 : 3.0};
    Ways total;
    total.fill(5);
    scene.kernels.add_link_seconds(scene.loads, paces.data(), total);
    for (std::size_t way = 0; way < last_ways; ++way) {
      double seconds = 5;
      for (std::size_t link = 0; link < paces.size(); ++link) {
        const double forward = scene.sum(2 * link, way);
        const double backward = scene.sum(2 * link + 1, way);
        seconds += std::max({forward * paces[link].forward, backward * paces[link].backward,
                             (forward + backward) * paces[link].combined});
      }
      CHECK(total[way] == seconds);
    }
  }
}
