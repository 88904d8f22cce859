// SPDX-License-Identifier: MIT OR Apache-2.0
#include "few/load_terms.hpp"

#include <algorithm>
#include <bit>

namespace toposeat {
namespace {

std::uint64_t bit_of(std::size_t pair) { return std::uint64_t{1} << pair; }

template <class Visit> void for_each_bit(std::uint64_t bits, Visit visit) {
  for (; bits != 0; bits &= bits - 1)
    visit(static_cast<std::size_t>(std::countr_zero(bits)));
}

} // namespace

std::vector<LoadTerms::Term> LoadTerms::terms_of(const Network &network) {
  std::vector<Term> terms(3 * network.links.size());
  for (std::size_t i = 0; i < network.links.size(); ++i) {
    terms[3 * i].pace = 1 / network.links[i].forward;
    terms[3 * i + 1].pace = 1 / network.links[i].backward;
    terms[3 * i + 2].pace = 1 / network.links[i].combined;
  }
  for (std::uint32_t a = 0; a < network.devices; ++a) {
    for (std::uint32_t b = 0; b < network.devices; ++b) {
      const std::size_t pair = std::size_t{a} * small_width + b;
      for (const LinkUse &use : network.route(a, b)) {
        for (const std::size_t each : {std::size_t{use.reverse}, std::size_t{2}}) {
          Term &term = terms[3 * std::size_t{use.link} + each];
          if ((term.pairs & bit_of(pair)) != 0)
            term.again.push_back(pair);
          term.pairs |= bit_of(pair);
        }
      }
    }
  }
  std::erase_if(terms, [](const Term &term) { return term.pairs == 0 || !(term.pace > 0); });
  return terms;
}

/// Whatever is sent, `one` is at least `other`.
bool LoadTerms::reaches(const Term &one, const Term &other) {
  return (other.pairs & ~one.pairs) == 0 && other.pace <= one.pace && other.again.empty();
}

LoadTerms::LoadTerms(const Network &network) {
  std::vector<Term> all = terms_of(network);
  // Those that reach most come first: what is reached need not be compared with the others.
  std::sort(all.begin(), all.end(), [](const Term &a, const Term &b) {
    const int more = std::popcount(a.pairs) - std::popcount(b.pairs);
    return more != 0 ? more > 0 : a.pairs != b.pairs ? a.pairs < b.pairs : a.pace < b.pace;
  });
  std::vector<Term> kept;
  for (Term &term : all) {
    const auto reaches_it = [&](const Term &other) { return reaches(other, term); };
    if (std::any_of(kept.begin(), kept.end(), reaches_it))
      continue;
    // Of terms with the same pairs the faster one may have come first.
    std::erase_if(kept, [&](const Term &other) { return reaches(term, other); });
    kept.push_back(std::move(term));
  }
  std::erase_if(kept, [this](const Term &term) { return keep_lone(term); });
  shared_ = TermTable(kept.size());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const auto add = [&](std::size_t pair) {
      shared_.add(i, pair / small_width, pair % small_width, kept[i].pace);
    };
    for_each_bit(kept[i].pairs, add);
    std::for_each(kept[i].again.begin(), kept[i].again.end(), add);
  }
}

/// Takes over a term of two devices alone; false if it is another one.
bool LoadTerms::keep_lone(const Term &term) {
  if (!term.again.empty() || std::popcount(term.pairs) > 2)
    return false;
  const auto pair = static_cast<std::size_t>(std::countr_zero(term.pairs));
  const std::size_t from = pair / small_width;
  const std::size_t to = pair % small_width;
  if (term.pairs == bit_of(pair)) {
    double &pace = lone_[from].leaving[to];
    lone_[to].entering[from] = pace = std::max(pace, term.pace);
    return true;
  }
  if (term.pairs != (bit_of(pair) | bit_of(to * small_width + from)))
    return false;
  double &pace = lone_[from].both[to];
  lone_[to].both[from] = pace = std::max(pace, term.pace);
  return true;
}

} // namespace toposeat
