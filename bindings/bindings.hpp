// What the files of the Python module share.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "toposeat/problem/map_request.hpp"

namespace nb = nanobind;

/// What Python passes: NumPy arrays of one dimension, converted if their type or layout differs.
template <typename T>
using InputVector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <typename T> std::span<const T> as_span(const InputVector<T> &array) {
  return {array.data(), array.shape(0)};
}

template <typename T> std::vector<T> as_vector(const InputVector<T> &array) {
  const auto span = as_span(array);
  return {span.begin(), span.end()};
}

/// Hands a vector to NumPy without copying: the array owns it from then on.
template <typename T> nb::ndarray<nb::numpy, T, nb::ndim<1>> as_array(std::vector<T> &&values) {
  auto *owned = new std::vector<T>(std::move(values));
  const nb::capsule owner(owned, [](void *p) noexcept { delete static_cast<std::vector<T> *>(p); });
  return {owned->data(), {owned->size()}, owner};
}

/// The same for a table with rows of so many columns.
template <typename T>
nb::ndarray<nb::numpy, T, nb::ndim<2>> as_table(std::vector<T> &&values, std::size_t columns) {
  auto *owned = new std::vector<T>(std::move(values));
  const nb::capsule owner(owned, [](void *p) noexcept { delete static_cast<std::vector<T> *>(p); });
  return {owned->data(), {owned->size() / columns, columns}, owner};
}

/// What Python calls `name`. Throws std::invalid_argument if there is no such name.
template <class Value>
Value named(const std::map<std::string, Value> &values, const std::string &name) {
  const auto found = values.find(name);
  if (found == values.end())
    throw std::invalid_argument("unknown name " + name);
  return found->second;
}

/// What Python calls objectives and methods, on machines of every size.
inline const std::map<std::string, toposeat::Objective> objectives{
    {"cost", toposeat::Objective::cost},
    {"congestion", toposeat::Objective::congestion},
    {"time", toposeat::Objective::time}};
inline const std::map<std::string, toposeat::Method> methods{
    {"auto", toposeat::Method::automatic},
    {"exact", toposeat::Method::exact},
    {"search", toposeat::Method::search},
    {"default", toposeat::Method::keep_default},
    {"random", toposeat::Method::random}};

void bind_network(nb::module_ &module);  // Network, RankTraffic, routes
void bind_evaluate(nb::module_ &module); // congestion, flow time
void bind_mapping(nb::module_ &module);  // solvers
void bind_scale(nb::module_ &module);    // machines and mapping of large jobs
void bind_search(nb::module_ &module);   // the search for pairwise cost alone
void bind_groups(nb::module_ &module);   // rates of collective groups
