// SPDX-License-Identifier: MIT OR Apache-2.0
#include "division/division.hpp"

#include <algorithm>
#include <numeric>

namespace toposeat {
namespace {

constexpr std::uint32_t outside = 0xffffffffU;
constexpr std::size_t few = 3;             // blocks that are repartitioned at a time
constexpr std::size_t more = 6;            // the same afterwards
constexpr int rounds = 2;                  // of repartitioning around every block
constexpr std::uint32_t most_local = 4096; // vertices: beyond, repartitioning costs too much
constexpr std::uint32_t first_tries = 8;   // and at least an eighth of the blocks
constexpr double worth_going_on = 0.02;    // of the cut: what all blocks promise, by the first ones
constexpr double worth_little = 0.005;     // the same where nothing else helps
constexpr float most_cut = 0.5F; // of the weight: beyond, blocks are no regions to repartition
constexpr std::uint32_t few_vertices = 64; // what they weigh is not worth more than refinement

} // namespace

struct Divider::Row {
  std::span<const std::uint32_t> capacity;
  std::uint32_t first; // number of the first of these blocks
  std::vector<std::uint32_t> vertices;
};

std::vector<std::uint32_t> Divider::divide(const PartGraph &graph,
                                           const std::vector<std::uint32_t> &capacity,
                                           const std::vector<std::uint32_t> &start) {
  std::vector<std::uint32_t> block(graph.vertices(), 0);
  Row row{capacity, 0, std::vector<std::uint32_t>(graph.vertices())};
  std::iota(row.vertices.begin(), row.vertices.end(), 0U);
  bisect_row(graph, row, block);
  const bool started = !start.empty() && cut_of(graph, start) < cut_of(graph, block);
  if (started)
    block = start;
  if (capacity.size() <= 2)
    return block;
  if (thorough_ && capacity.size() > few && graph.vertices() > few_vertices)
    improve(graph, capacity, started, block);
  else
    kway_.refine(graph, capacity, block);
  return block;
}

void Divider::improve(const PartGraph &graph, const std::vector<std::uint32_t> &capacity,
                      bool started, std::vector<std::uint32_t> &block) {
  if (share_cut(graph, block) < most_cut)
    repartition(graph, capacity, few, rounds, started ? 0 : worth_going_on, block);
  kway_.refine(graph, capacity, block);
  if (capacity.size() > more)
    repartition(graph, capacity, more, 1, worth_little, block);
}

void Divider::bisect_row(const PartGraph &graph, const Row &row,
                         std::vector<std::uint32_t> &block) {
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
    bisect_row(graph, first, block);
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
  bisect_row(half > 1 ? induced(graph, local[0]) : PartGraph(), first, block);
  bisect_row(count - half > 1 ? induced(graph, local[1]) : PartGraph(), second, block);
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

void Divider::repartition(const PartGraph &graph, const std::vector<std::uint32_t> &capacity,
                          std::size_t together, int most_rounds, double worthwhile,
                          std::vector<std::uint32_t> &block) {
  together_ = together;
  const auto blocks = static_cast<std::uint32_t>(capacity.size());
  members_.assign(blocks, {});
  for (std::uint32_t v = 0; v < graph.vertices(); ++v)
    members_[block[v]].push_back(v);
  link_.assign(blocks, 0);
  const double cut = cut_of(graph, block);
  const std::uint32_t sample = std::max(first_tries, blocks / 8);
  for (int round = 0; round < most_rounds; ++round) {
    double gained = 0;
    std::uint32_t tried = 0;
    for (const std::uint32_t centre : rng_.permutation(blocks)) {
      if (deadline_.expired())
        return;
      gained += repartition_around(graph, capacity, centre, block);
      ++tried;
      if (round == 0 && tried == sample && gained * blocks < worthwhile * cut * tried)
        return;
    }
    if (gained == 0)
      break;
  }
}

/// The block and those most linked to it and to each other.
std::vector<std::uint32_t> Divider::neighbourhood(const PartGraph &graph, std::uint32_t centre,
                                                  const std::vector<std::uint32_t> &block) {
  std::vector<std::uint32_t> chosen{centre};
  std::vector<std::uint32_t> touched;
  while (chosen.size() < together_) {
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

/// How much less weight there is between the blocks now, counted from both ends.
double Divider::repartition_around(const PartGraph &graph,
                                   const std::vector<std::uint32_t> &capacity, std::uint32_t centre,
                                   std::vector<std::uint32_t> &block) {
  const std::vector<std::uint32_t> chosen = neighbourhood(graph, centre, block);
  if (chosen.size() < 2)
    return 0;
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
    return 0;
  const PartGraph local = induced(graph, vertices);
  row.capacity = room;
  row.vertices.resize(vertices.size());
  std::iota(row.vertices.begin(), row.vertices.end(), 0U);
  std::vector<std::uint32_t> after(vertices.size(), 0);
  bisect_row(local, row, after);
  local_.refine(local, room, after);
  const double cut_before = cut_of(local, before);
  const double cut_after = cut_of(local, after);
  if (!(cut_after < cut_before * (1 - 1e-6)))
    return 0;
  for (const std::uint32_t b : chosen)
    members_[b].clear();
  for (std::size_t i = 0; i < vertices.size(); ++i) {
    block[vertices[i]] = chosen[after[i]];
    members_[chosen[after[i]]].push_back(vertices[i]);
  }
  return cut_before - cut_after;
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
