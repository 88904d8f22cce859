// SPDX-License-Identifier: MIT OR Apache-2.0
#include "division.hpp"

#include <algorithm>
#include <numeric>

namespace toposeat {
namespace {

constexpr std::uint32_t outside = 0xffffffffU;
constexpr std::size_t together = 3;        // blocks that are divided again at a time
constexpr int rounds = 2;                  // of dividing again around every block
constexpr std::uint32_t most_local = 4096; // vertices: beyond, dividing again costs too much

/// Weight between different blocks, each edge counted from both ends.
double cut_of(const PartGraph &graph, const std::vector<std::uint32_t> &block) {
  double cut = 0;
  for (std::uint32_t v = 0; v < graph.vertices(); ++v) {
    for (std::uint32_t e = graph.begin[v]; e < graph.begin[v + 1]; ++e)
      cut += block[v] != block[graph.target[e]] ? graph.weight[e] : 0;
  }
  return cut;
}

} // namespace

struct Divider::Row {
  std::span<const std::uint32_t> capacity;
  std::uint32_t first; // number of the first of these blocks
  std::vector<std::uint32_t> vertices;
};

std::vector<std::uint32_t> Divider::divide(const PartGraph &graph,
                                           const std::vector<std::uint32_t> &capacity) {
  std::vector<std::uint32_t> block(graph.vertices(), 0);
  Row row{capacity, 0, std::vector<std::uint32_t>(graph.vertices())};
  std::iota(row.vertices.begin(), row.vertices.end(), 0U);
  halve(graph, row, block);
  if (capacity.size() > 2) {
    kway_.refine(graph, capacity, block);
    if (divide_again_ && capacity.size() > together)
      redivide(graph, capacity, block);
  }
  return block;
}

void Divider::halve(const PartGraph &graph, const Row &row, std::vector<std::uint32_t> &block) {
  const std::size_t count = row.capacity.size();
  if (row.vertices.empty())
    return;
  if (count == 1) {
    for (const std::uint32_t v : row.vertices)
      block[v] = row.first;
    return;
  }
  if (deadline_.expired()) {
    deal(row, block);
    return;
  }
  const std::size_t half = count / 2;
  const auto room = [](std::span<const std::uint32_t> blocks) {
    return std::accumulate(blocks.begin(), blocks.end(), 0U);
  };
  const std::uint32_t first_room = room(row.capacity.first(half));
  const std::uint32_t second_room = room(row.capacity.subspan(half));
  const auto ranks = static_cast<std::uint32_t>(row.vertices.size());
  Row first{row.capacity.first(half), row.first, {}};
  if (ranks <= first_room) {
    first.vertices = row.vertices;
    halve(graph, first, block);
    return;
  }
  Row second{row.capacity.subspan(half), row.first + static_cast<std::uint32_t>(half), {}};
  const SizeRange range{ranks > second_room ? ranks - second_room : 0, std::min(ranks, first_room)};
  const Sides sides = bisector_.bisect(graph, range);
  std::vector<std::uint32_t> local[2];
  for (std::uint32_t v = 0; v < ranks; ++v) {
    local[sides[v]].push_back(v);
    (sides[v] == 0 ? first : second).vertices.push_back(row.vertices[v]);
  }
  halve(half > 1 ? induced(graph, local[0]) : PartGraph(), first, block);
  halve(count - half > 1 ? induced(graph, local[1]) : PartGraph(), second, block);
}

/// Fills the blocks one after the other.
void Divider::deal(const Row &row, std::vector<std::uint32_t> &block) {
  std::uint32_t b = 0;
  std::uint32_t in_block = 0;
  for (const std::uint32_t v : row.vertices) {
    while (in_block == row.capacity[b]) {
      ++b;
      in_block = 0;
    }
    block[v] = row.first + b;
    ++in_block;
  }
}

void Divider::redivide(const PartGraph &graph, const std::vector<std::uint32_t> &capacity,
                       std::vector<std::uint32_t> &block) {
  const auto blocks = static_cast<std::uint32_t>(capacity.size());
  members_.assign(blocks, {});
  for (std::uint32_t v = 0; v < graph.vertices(); ++v)
    members_[block[v]].push_back(v);
  link_.assign(blocks, 0);
  for (int round = 0; round < rounds; ++round) {
    bool improved = false;
    for (const std::uint32_t centre : rng_.permutation(blocks)) {
      if (deadline_.expired())
        return;
      improved |= redivide_around(graph, capacity, centre, block);
    }
    if (!improved)
      break;
  }
}

/// The block and those most linked to it and to each other.
std::vector<std::uint32_t> Divider::neighbourhood(const PartGraph &graph, std::uint32_t centre,
                                                  const std::vector<std::uint32_t> &block) {
  std::vector<std::uint32_t> chosen{centre};
  std::vector<std::uint32_t> touched;
  while (chosen.size() < together) {
    for (const std::uint32_t v : members_[chosen.back()]) {
      for (std::uint32_t e = graph.begin[v]; e < graph.begin[v + 1]; ++e) {
        const std::uint32_t b = block[graph.target[e]];
        if (link_[b] == 0)
          touched.push_back(b);
        link_[b] += graph.weight[e];
      }
    }
    std::uint32_t best = outside;
    for (const std::uint32_t b : touched) {
      const bool known = std::find(chosen.begin(), chosen.end(), b) != chosen.end();
      if (!known && (best == outside || link_[b] > link_[best]))
        best = b;
    }
    if (best == outside)
      break;
    chosen.push_back(best);
  }
  for (const std::uint32_t b : touched)
    link_[b] = 0;
  return chosen;
}

bool Divider::redivide_around(const PartGraph &graph, const std::vector<std::uint32_t> &capacity,
                              std::uint32_t centre, std::vector<std::uint32_t> &block) {
  const std::vector<std::uint32_t> chosen = neighbourhood(graph, centre, block);
  if (chosen.size() < 2)
    return false;
  Row row{{}, 0, {}};
  std::vector<std::uint32_t> vertices;
  std::vector<std::uint32_t> room;
  std::vector<std::uint32_t> before;
  for (std::uint32_t i = 0; i < chosen.size(); ++i) {
    const std::vector<std::uint32_t> &members = members_[chosen[i]];
    vertices.insert(vertices.end(), members.begin(), members.end());
    before.resize(vertices.size(), i);
    room.push_back(capacity[chosen[i]]);
  }
  if (vertices.size() > most_local)
    return false;
  const PartGraph local = induced(graph, vertices);
  row.capacity = room;
  row.vertices.resize(vertices.size());
  std::iota(row.vertices.begin(), row.vertices.end(), 0U);
  std::vector<std::uint32_t> after(vertices.size(), 0);
  halve(local, row, after);
  local_.refine(local, room, after);
  if (!(cut_of(local, after) < cut_of(local, before) * (1 - 1e-6)))
    return false;
  for (const std::uint32_t b : chosen)
    members_[b].clear();
  for (std::size_t i = 0; i < vertices.size(); ++i) {
    block[vertices[i]] = chosen[after[i]];
    members_[chosen[after[i]]].push_back(vertices[i]);
  }
  return true;
}

PartGraph Divider::induced(const PartGraph &graph, std::span<const std::uint32_t> vertices) {
  if (number_.size() < graph.vertices())
    number_.resize(graph.vertices(), outside);
  for (std::uint32_t i = 0; i < vertices.size(); ++i)
    number_[vertices[i]] = i;
  PartGraph result;
  result.begin.reserve(vertices.size() + 1);
  result.size.assign(vertices.size(), 1);
  for (const std::uint32_t v : vertices) {
    for (std::uint32_t e = graph.begin[v]; e < graph.begin[v + 1]; ++e) {
      const std::uint32_t to = number_[graph.target[e]];
      if (to == outside)
        continue;
      result.target.push_back(to);
      result.weight.push_back(graph.weight[e]);
    }
    result.begin.push_back(static_cast<std::uint32_t>(result.target.size()));
  }
  for (const std::uint32_t v : vertices)
    number_[v] = outside;
  return result;
}

} // namespace toposeat
