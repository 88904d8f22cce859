// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/symmetry.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "toposeat/rng.hpp"

namespace toposeat {
namespace {

constexpr std::uint32_t unset = 0xffffffffU;
constexpr int step_limit = 20000; // of one backtracking search
constexpr int check_limit = 200;  // whole permutations looked at in one search

/// Depth-first search for one permutation that respects the colours.
class Search {
public:
  Search(std::uint32_t size, const std::vector<std::uint32_t> &colour, const Symmetry::Check &check)
      : size_(size), colour_(colour), check_(check), image_(size, unset), taken_(size, false) {}

  bool pin(std::uint32_t vertex, std::uint32_t image) {
    if (image_[vertex] == image)
      return true;
    if (image_[vertex] != unset || taken_[image] || !fits(vertex, image))
      return false;
    set(vertex, image);
    return true;
  }

  bool run() { return extend(0); }

private:
  bool fits(std::uint32_t vertex, std::uint32_t image) const {
    if (colour(vertex, vertex) != colour(image, image))
      return false;
    return std::all_of(order_.begin(), order_.end(), [&](std::uint32_t known) {
      return colour(vertex, known) == colour(image, image_[known]) &&
             colour(known, vertex) == colour(image_[known], image);
    });
  }

  std::uint32_t colour(std::uint32_t a, std::uint32_t b) const { return colour_[a * size_ + b]; }

  void set(std::uint32_t vertex, std::uint32_t image) {
    image_[vertex] = image;
    taken_[image] = true;
    order_.push_back(vertex);
  }

  bool extend(std::uint32_t vertex) {
    while (vertex < size_ && image_[vertex] != unset)
      ++vertex;
    if (vertex == size_) {
      return !check_ || (++checks_ <= check_limit && check_(image_));
    }
    for (std::uint32_t k = 0; k < size_; ++k) {
      // Its own place first: most symmetries move little.
      const std::uint32_t image = k == 0 ? vertex : (k <= vertex ? k - 1 : k);
      if (taken_[image] || !fits(vertex, image))
        continue;
      if (++steps_ > step_limit || checks_ > check_limit)
        return false;
      set(vertex, image);
      if (extend(vertex + 1))
        return true;
      image_[vertex] = unset;
      taken_[image] = false;
      order_.pop_back();
    }
    return false;
  }

  std::uint32_t size_;
  const std::vector<std::uint32_t> &colour_;
  const Symmetry::Check &check_;
  std::vector<std::uint32_t> image_;
  std::vector<bool> taken_;
  std::vector<std::uint32_t> order_;
  int steps_ = 0;
  int checks_ = 0;
};

template <class Key>
std::uint32_t number_of(std::map<Key, std::uint32_t> &numbers, const Key &key) {
  return numbers.try_emplace(key, static_cast<std::uint32_t>(numbers.size())).first->second;
}

/// The links of a network as seen by a device permutation: which directed pairs use each link is
/// hashed so that the hash of the permuted set can be computed from permuted pairs.
class LinkFingerprints {
public:
  explicit LinkFingerprints(const Network &network) : network_(network) {
    Rng rng(0x70b0);
    const std::size_t pairs = static_cast<std::size_t>(network.devices) * network.devices;
    for (std::size_t i = 0; i < pairs; ++i)
      pair_hash_.push_back(rng.next());
    std::vector<std::uint32_t> identity(network.devices);
    for (std::uint32_t d = 0; d < network.devices; ++d)
      identity[d] = d;
    reference_ = fingerprints(identity);
  }

  bool preserved_by(const std::vector<std::uint32_t> &image) const {
    return fingerprints(image) == reference_;
  }

private:
  using Side = std::pair<double, std::uint64_t>; // capacity and users of one direction
  using Fingerprint = std::tuple<Side, Side, double>;

  std::vector<Fingerprint> fingerprints(const std::vector<std::uint32_t> &image) const {
    std::vector<std::array<std::uint64_t, 2>> users(network_.links.size(), {0, 0});
    for (std::uint32_t a = 0; a < network_.devices; ++a) {
      for (std::uint32_t b = 0; b < network_.devices; ++b) {
        const std::uint64_t hash = pair_hash_[image[a] * std::size_t{network_.devices} + image[b]];
        for (const LinkUse &use : network_.route(a, b))
          users[use.link][use.reverse ? 1 : 0] += hash;
      }
    }
    std::vector<Fingerprint> prints;
    prints.reserve(users.size());
    for (std::size_t i = 0; i < users.size(); ++i) {
      const LinkCapacity &link = network_.links[i];
      Side one{link.forward, users[i][0]};
      Side two{link.backward, users[i][1]};
      if (two < one)
        std::swap(one, two); // which end comes first means nothing
      prints.emplace_back(one, two, link.combined);
    }
    add_limits(image, prints);
    std::sort(prints.begin(), prints.end());
    return prints;
  }

  /// Limits of pairs are like links, but no link has a negative combined capacity.
  void add_limits(const std::vector<std::uint32_t> &image, std::vector<Fingerprint> &prints) const {
    std::vector<Side> limits;
    limits.reserve(network_.pair_limits.size());
    for (const double limit : network_.pair_limits)
      limits.emplace_back(limit, 0);
    for (std::size_t pair = 0; pair < network_.limit_of_pair.size(); ++pair) {
      const std::int32_t number = network_.limit_of_pair[pair];
      const std::size_t moved = image[pair / network_.devices] * std::size_t{network_.devices} +
                                image[pair % network_.devices];
      if (number != none_of_pair)
        limits[static_cast<std::size_t>(number)].second += pair_hash_[moved];
    }
    for (const Side &limit : limits)
      prints.emplace_back(limit, Side{}, -1.0);
  }

  const Network &network_;
  std::vector<std::uint64_t> pair_hash_;
  std::vector<Fingerprint> reference_;
};

} // namespace

Symmetry::Symmetry(const Matrix &matrix) : size_(static_cast<std::uint32_t>(matrix.n)) {
  std::map<double, std::uint32_t> numbers;
  for (const double value : matrix.values)
    colour_.push_back(number_of(numbers, value));
}

Symmetry::Symmetry(const Network &network) : size_(network.devices) {
  // Pairs can be exchanged only if cap, latency, curve, limit and the capacities along the route
  // agree.
  std::map<std::vector<double>, std::uint32_t> numbers;
  for (std::uint32_t a = 0; a < size_; ++a) {
    for (std::uint32_t b = 0; b < size_; ++b) {
      const std::size_t pair = std::size_t{a} * size_ + b;
      const std::int32_t limit = network.limit(pair);
      std::vector<double> key{network.cap[pair], network.latency[pair], a == b ? 1.0 : 0.0,
                              static_cast<double>(network.curve(pair)),
                              limit < 0 ? unlimited
                                        : network.pair_limits[static_cast<std::size_t>(limit)]};
      for (const LinkUse &use : network.route(a, b)) {
        const LinkCapacity &link = network.links[use.link];
        key.push_back(use.reverse ? link.backward : link.forward);
        key.push_back(use.reverse ? link.forward : link.backward);
        key.push_back(link.combined);
      }
      colour_.push_back(number_of(numbers, key));
    }
  }
  check_ = [prints = std::make_shared<LinkFingerprints>(network)](
               const std::vector<std::uint32_t> &image) { return prints->preserved_by(image); };
}

bool Symmetry::holds(const std::vector<std::uint32_t> &image) const {
  for (std::size_t a = 0; a < size_; ++a) {
    for (std::size_t b = 0; b < size_; ++b) {
      if (colour_[a * size_ + b] != colour_[image[a] * std::size_t{size_} + image[b]])
        return false;
    }
  }
  return !check_ || check_(image);
}

bool Symmetry::equivalent(std::span<const std::uint32_t> fixed, std::uint32_t from,
                          std::uint32_t to) const {
  Search search(size_, colour_, check_);
  for (const std::uint32_t vertex : fixed) {
    if (!search.pin(vertex, vertex))
      return false;
  }
  return search.pin(from, to) && search.run();
}

std::vector<std::uint32_t>
Symmetry::representatives(std::span<const std::uint32_t> fixed,
                          std::span<const std::uint32_t> candidates) const {
  std::vector<std::uint32_t> chosen;
  for (const std::uint32_t candidate : candidates) {
    const bool known = std::any_of(chosen.begin(), chosen.end(), [&](std::uint32_t other) {
      return equivalent(fixed, other, candidate);
    });
    if (!known)
      chosen.push_back(candidate);
  }
  return chosen;
}

} // namespace toposeat
