// SPDX-License-Identifier: MIT OR Apache-2.0
#include "tree/tree_kernel.hpp"

#include "base/wide.hpp"

namespace toposeat {
namespace {

/// The values of one set and of its turns; compilers split it into what the processor has.
typedef double Turns __attribute__((vector_size(64)));
typedef double TurnsAnywhere __attribute__((vector_size(64), aligned(alignof(double)), may_alias));

TOPOSEAT_INLINE Turns load(const double *first) {
  return *reinterpret_cast<const TurnsAnywhere *>(first);
}

TOPOSEAT_INLINE void store(double *first, Turns turns) {
  *reinterpret_cast<TurnsAnywhere *>(first) = turns;
}

TOPOSEAT_INLINE double *second_half(SetRow &row) { return row.values.data() + turned_ranks; }

TOPOSEAT_INLINE Turns all(double value) { return Turns{} + value; }
TOPOSEAT_INLINE Turns larger(Turns a, Turns b) { return a > b ? a : b; }
TOPOSEAT_INLINE Turns smaller(Turns a, Turns b) { return a < b ? a : b; }

struct Add {
  TOPOSEAT_INLINE Turns operator()(Turns a, Turns b) const { return a + b; }
};
struct Larger {
  TOPOSEAT_INLINE Turns operator()(Turns a, Turns b) const { return larger(a, b); }
};

TOPOSEAT_INLINE Turns without_noise(Turns bytes, double noise) {
  return bytes > all(noise) ? bytes : Turns{};
}

typedef long long Answers __attribute__((vector_size(64))); // of a comparison, by turn
typedef long long FourAnswers __attribute__((vector_size(32)));

TOPOSEAT_INLINE bool any(Answers answers) {
  const FourAnswers four = __builtin_shufflevector(answers, answers, 0, 1, 2, 3) |
                           __builtin_shufflevector(answers, answers, 4, 5, 6, 7);
  return (four[0] | four[1] | four[2] | four[3]) != 0;
}

/// Whether any is finite.
TOPOSEAT_INLINE bool start_row(SetRow &row, Turns charged, double most) {
  const Turns value = load(row.values.data()) > all(most) ? all(unlimited) : charged;
  store(row.values.data(), all(unlimited));
  store(second_half(row), value);
  return any(value < all(unlimited));
}

template <class Join>
TOPOSEAT_INLINE RowSet charge_rows(std::span<const CutTerm> terms, double limit, double most,
                                   const BorderParts &border, std::span<SetRow> rows) {
  RowSet finite = 0;
  if (terms.empty()) {
    for (std::size_t row = 0; row < rows.size(); ++row)
      finite |= static_cast<RowSet>(start_row(rows[row], Turns{}, most)) << row;
    return finite;
  }
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const Turns inside =
        load(border.low_inside[row].data()) + border.high_inside +
        (load(border.across_first[row].data()) + load(border.across_last[row].data()));
    const Turns out =
        without_noise(load(border.low_out[row].data()) + border.high_out - inside, border.noise);
    const Turns in =
        without_noise(load(border.low_in[row].data()) + border.high_in - inside, border.noise);
    Turns value{};
    for (const CutTerm &term : terms) {
      Turns each = larger(larger(term.out * out, term.in * in), term.both * (out + in));
      each = each > Turns{} ? each + term.fixed : each;
      value = Join{}(value, each > all(limit) ? all(unlimited) : each);
    }
    finite |= static_cast<RowSet>(start_row(rows[row], value, most)) << row;
  }
  return finite;
}

TOPOSEAT_INLINE void rule_out_turns(const double *others, SetRow &row) {
  const Turns value = load(second_half(row));
  store(second_half(row), load(others) < all(unlimited) ? value : all(unlimited));
}

TOPOSEAT_INLINE RowSet finite_rows(std::span<const SetRow> rows) {
  RowSet finite = 0;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const bool here = any(load(rows[row].values.data() + turned_ranks) < all(unlimited));
    finite |= static_cast<RowSet>(here) << row;
  }
  return finite;
}

/// Row by row: all have the same number of splits, and the processor soon knows it.
template <class Join>
TOPOSEAT_INLINE void join_rows(std::span<const HighSplit> splits, const LowSplits &lows,
                               RowSet chosen, std::span<SetRow> rows) {
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if ((chosen >> row & 1U) == 0)
      continue;
    const LowSplit *const row_lows = lows.splits + row * lows.stride;
    Turns best = load(rows[row].values.data());
    Turns other = best; // two in turn: one least value waits for the one before
    for (const HighSplit &split : splits) {
      std::size_t i = 0;
      for (; i + 1 < lows.count; i += 2) {
        best = smaller(best, Join{}(load(split.right + row_lows[i].right),
                                    load(split.left + row_lows[i].left)));
        other = smaller(other, Join{}(load(split.right + row_lows[i + 1].right),
                                      load(split.left + row_lows[i + 1].left)));
      }
      if (i < lows.count)
        best = smaller(best, Join{}(load(split.right + row_lows[i].right),
                                    load(split.left + row_lows[i].left)));
    }
    store(rows[row].values.data(), smaller(best, other));
  }
}

template <class Join> TOPOSEAT_INLINE RowSet end_rows(std::span<SetRow> rows) {
  RowSet finite = 0;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const Turns value = Join{}(load(rows[row].values.data()), load(second_half(rows[row])));
    store(rows[row].values.data(), value);
    store(second_half(rows[row]), value);
    finite |= static_cast<RowSet>(any(value < all(unlimited))) << row;
  }
  return finite;
}

template <class Join> struct Kernel {
  TOPOSEAT_WIDE static RowSet charge(std::span<const CutTerm> terms, double limit, double most,
                                     const BorderParts &border, std::span<SetRow> rows) {
    return charge_rows<Join>(terms, limit, most, border, rows);
  }
  TOPOSEAT_WIDE static void rule_out(const double *others, SetRow &row) {
    rule_out_turns(others, row);
  }
  TOPOSEAT_WIDE static RowSet finite(std::span<const SetRow> rows) { return finite_rows(rows); }
  TOPOSEAT_WIDE static void join(std::span<const HighSplit> splits, const LowSplits &lows,
                                 RowSet chosen, std::span<SetRow> rows) {
    join_rows<Join>(splits, lows, chosen, rows);
  }
  TOPOSEAT_WIDE static RowSet end(std::span<SetRow> rows) { return end_rows<Join>(rows); }
};

template <class Join> TreeKernel kernel() {
  using Of = Kernel<Join>;
  return {Of::charge, Of::rule_out, Of::finite, Of::join, Of::end};
}

} // namespace

TreeKernel tree_kernel(TermJoin join) {
  return join == TermJoin::sum ? kernel<Add>() : kernel<Larger>();
}

} // namespace toposeat
