// SPDX-License-Identifier: MIT OR Apache-2.0
#include "toposeat/problem/symmetry.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/rng.hpp"

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
  explicit LinkFingerprints(const Network &network) : devices_(network.devices) {
    Rng rng(0x70b0);
    const std::size_t pairs = devices_ * devices_;
    for (std::size_t i = 0; i < pairs; ++i)
      pair_hash_.push_back(rng.next());
    list_links(network);
    list_limits(network);
    std::vector<std::uint32_t> identity(devices_);
    std::iota(identity.begin(), identity.end(), 0U);
    reference_ = fingerprint(identity);
  }

  bool preserved_by(const std::vector<std::uint32_t> &image) const {
    return fingerprint(image) == reference_;
  }

private:
  /// One use of a direction of a link, or of a limit.
  struct Use {
    std::uint32_t from;
    std::uint32_t to;
    std::uint32_t side;
  };

  static std::uint64_t hash_of(double number) {
    return mixed_bits(std::bit_cast<std::uint64_t>(number) + 1);
  }

  /// Sides 2 i and 2 i + 1 are the directions of link i.
  void list_links(const Network &network) {
    for (const LinkCapacity &link : network.links) {
      side_hash_.push_back(hash_of(link.forward));
      side_hash_.push_back(hash_of(link.backward));
      pair_of_sides_.push_back(hash_of(link.combined));
    }
    for (std::uint32_t a = 0; a < devices_; ++a) {
      for (std::uint32_t b = 0; b < devices_; ++b) {
        for (const LinkUse &use : network.route(a, b))
          uses_.push_back({a, b, 2 * use.link + (use.reverse ? 1 : 0)});
      }
    }
  }

  /// Limits of pairs are like links with one direction, but no link has a negative combined
  /// capacity.
  void list_limits(const Network &network) {
    const auto first = static_cast<std::uint32_t>(side_hash_.size());
    for (const double limit : network.pair_limits) {
      side_hash_.push_back(hash_of(limit));
      side_hash_.push_back(0);
      pair_of_sides_.push_back(hash_of(-1));
    }
    for (std::size_t pair = 0; pair < network.limit_of_pair.size(); ++pair) {
      const std::int32_t number = network.limit_of_pair[pair];
      if (number != none_of_pair)
        uses_.push_back({static_cast<std::uint32_t>(pair / devices_),
                         static_cast<std::uint32_t>(pair % devices_),
                         first + 2 * static_cast<std::uint32_t>(number)});
    }
  }

  /// Of the multiset of links: which comes first means nothing, nor which end of one does.
  std::uint64_t fingerprint(const std::vector<std::uint32_t> &image) const {
    std::vector<std::uint64_t> users(side_hash_);
    for (const Use &use : uses_)
      users[use.side] += pair_hash_[image[use.from] * devices_ + image[use.to]];
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < pair_of_sides_.size(); ++i)
      all +=
          mixed_bits(pair_of_sides_[i] + mixed_bits(users[2 * i]) + mixed_bits(users[2 * i + 1]));
    return all;
  }

  std::size_t devices_;
  std::vector<std::uint64_t> pair_hash_;
  std::vector<std::uint64_t> side_hash_;     // of the capacity
  std::vector<std::uint64_t> pair_of_sides_; // of what both directions have together
  std::vector<Use> uses_;
  std::uint64_t reference_ = 0;
};

/// Routes that use each direction of each link.
std::vector<std::array<double, 2>> users_of_links(const Network &network) {
  std::vector<std::array<double, 2>> users(network.links.size(), {0, 0});
  for (const LinkUse &use : network.route_uses)
    ++users[use.link][use.reverse ? 1 : 0];
  return users;
}

} // namespace

Symmetry::Symmetry(const Matrix &matrix) : size_(static_cast<std::uint32_t>(matrix.n)) {
  std::map<double, std::uint32_t> numbers;
  for (const double value : matrix.values)
    colour_.push_back(number_of(numbers, value));
}

Symmetry::Symmetry(const Network &network) : size_(network.devices) {
  // Pairs can be exchanged only if cap, latency, curve and limit agree, and along the route the
  // capacities and how many routes share them.
  const std::vector<std::array<double, 2>> users = users_of_links(network);
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
        key.push_back(users[use.link][use.reverse ? 1 : 0]);
        key.push_back(users[use.link][use.reverse ? 0 : 1]);
      }
      colour_.push_back(number_of(numbers, key));
    }
  }
  check_ = [prints = std::make_shared<LinkFingerprints>(network)](
               const std::vector<std::uint32_t> &image) { return prints->preserved_by(image); };
}

Symmetry::Symmetry(const Network &network, const Matrix &matrix) : Symmetry(network) {
  std::map<std::pair<std::uint32_t, double>, std::uint32_t> numbers;
  for (std::size_t pair = 0; pair < colour_.size(); ++pair)
    colour_[pair] = number_of(numbers, std::pair(colour_[pair], matrix.values[pair]));
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
  const auto same_colours = [&](std::uint32_t vertex) {
    return colour_[vertex * size_ + from] == colour_[vertex * size_ + to] &&
           colour_[from * size_ + vertex] == colour_[to * size_ + vertex];
  };
  if (!std::all_of(fixed.begin(), fixed.end(), same_colours)) // most often, and quickly told
    return false;
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
  const auto is_there = [&](std::uint32_t each) { return each < size_; };
  if (!std::all_of(fixed.begin(), fixed.end(), is_there) ||
      !std::all_of(candidates.begin(), candidates.end(), is_there))
    throw std::invalid_argument("a symmetry permutes " + std::to_string(size_) + " places");
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
