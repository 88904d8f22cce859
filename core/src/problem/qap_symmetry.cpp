// SPDX-License-Identifier: MIT OR Apache-2.0
#include "problem/qap_symmetry.hpp"

#include <map>
#include <utility>
#include <vector>

namespace toposeat {
namespace {

/// Numbers for pairs of values, the same for equal pairs.
class Colours {
public:
  double of(double first, double second) {
    return known_.try_emplace({first, second}, static_cast<double>(known_.size())).first->second;
  }

private:
  std::map<std::pair<double, double>, double> known_;
};

/// Equal colours of two pairs: both terms are equal. Equal colours of two lines (on the diagonal):
/// `line(i)` is equal, that is the restrictions to allowed devices.
template <class Line>
Matrix coloured(const Matrix &first, const Matrix &second, std::size_t n, const Line &line) {
  Colours colours;
  std::map<std::vector<bool>, double> lines;
  Matrix result(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j)
      result(i, j) = colours.of(first(i, j), second.n != 0 ? second(i, j) : 0);
    result(i, i) = -1 - lines.try_emplace(line(i), static_cast<double>(lines.size())).first->second;
  }
  return result;
}

std::vector<bool> ranks_allowed_on(const Qap &qap, std::size_t device) {
  std::vector<bool> ranks;
  for (std::size_t r = 0; r < qap.size() && !qap.allowed.empty(); ++r)
    ranks.push_back(qap.allowed.contains(r, device));
  return ranks;
}

std::vector<bool> devices_allowed_for(const Qap &qap, std::size_t rank) {
  std::vector<bool> devices;
  for (std::size_t d = 0; d < qap.size() && !qap.allowed.empty(); ++d)
    devices.push_back(qap.allowed.contains(rank, d));
  return devices;
}

} // namespace

Matrix machine_colours(const Qap &qap) {
  return coloured(qap.distance, qap.distance2, qap.size(),
                  [&](std::size_t device) { return ranks_allowed_on(qap, device); });
}

Matrix pattern_colours(const Qap &qap) {
  return coloured(qap.flow, qap.flow2, qap.size(),
                  [&](std::size_t rank) { return devices_allowed_for(qap, rank); });
}

} // namespace toposeat
