// What is given once and then only read.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>

namespace toposeat {

/// A value that nobody changes: made of one by move or copy, or of a pointer that shares it. Copies
/// are one more owner of the same value.
template <class Value> class Shared {
public:
  template <std::convertible_to<Value> Given>
  Shared(Given &&value) // NOLINT(*-explicit-*): what holds one is given the value
      : value_(std::make_shared<const Value>(std::forward<Given>(value))) {}

  /// Throws std::invalid_argument on a null pointer.
  Shared(std::shared_ptr<const Value> value) : value_(std::move(value)) { // NOLINT(*-explicit-*)
    if (!value_)
      throw std::invalid_argument("a null pointer instead of a value");
  }

  [[nodiscard]] const Value &operator*() const { return *value_; }
  [[nodiscard]] const Value *operator->() const { return value_.get(); }

private:
  std::shared_ptr<const Value> value_;
};

/// What an object refers to as long as it lives: not made of a temporary.
template <class Value> using Kept = std::reference_wrapper<const Value>;

} // namespace toposeat
