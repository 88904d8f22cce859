// The innermost loop of the enumeration of congestion.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <span>

#include "few/load_terms.hpp"

namespace toposeat {

/// What a rank that is not placed can expect, by its device.
struct Prospect {
  DeviceLine lone; // the largest term that is not shared, of this rank and of those placed
  DeviceLine most; // the largest term
};

/// A rank that is not placed: what it adds to each shared term, by its device, with what it
/// exchanges with those that are placed.
struct LoadRow {
  const DeviceLine *before = nullptr; // [term]: without the latest one
  DeviceLine *now = nullptr;          // [term]: with it
  const Prospect *expected = nullptr; // without the latest one
  Prospect *expects = nullptr;        // with it
  double sent = 0;                    // by this rank to the latest one
  double received = 0;
};

/// Where the latest rank was placed.
struct LoadStep {
  const LoadTerms *terms = nullptr;
  std::size_t device = 0;
  const DeviceLine *placed = nullptr; // what the rank adds to each shared term, by its device
  const Prospect *expected = nullptr; // what it could expect
  const double *before = nullptr;     // what all others that are placed add to each shared term
  double *now = nullptr;              // the same with this rank
  const DeviceLine *filled = nullptr; // 1 for a device that one of the rows must take, else 0
};

/// Computes `now` and `expects` of at most 7 rows, and `now` of the step. A device that must be
/// taken adds at least what the least of the rows adds there; that counts for all the others.
using SettleRows = void (*)(std::span<const LoadRow> rows, const LoadStep &step);

/// For this processor; the results are the same whatever it offers.
SettleRows settle_rows();

} // namespace toposeat
