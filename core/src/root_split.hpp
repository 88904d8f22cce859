// The best split of all ranks between the two parts of a tree's root.
// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "tree_values.hpp"

namespace toposeat {

/// A part that is split itself is entered from below where that is quicker: if a split of all ranks
/// is better than the best known, then one of its parts has less than half of what there is to gain
/// beyond the shares of its ranks. Pairs of sets that have that little are few.
template <class Join> class RootSplit {
public:
  struct Answer {
    double value;
    RankSet right;
  };

  explicit RootSplit(TreeValues<Join> &values)
      : values_(values), root_(values.stages()[values.stages().of_node(0)]),
        all_(static_cast<RankSet>((std::uint64_t{1} << values.ranks()) - 1)) {}

  /// The best split if it is below `upper`.
  std::optional<Answer> best(double upper) {
    best_ = {upper, 0};
    list_splits();
    if (splits_.size() <= few_splits || !from_pairs())
      scan();
    return best_.right != 0 ? std::optional(best_) : std::nullopt;
  }

private:
  static constexpr std::size_t few_splits = 400;     // quicker looked at than what they are made of
  static constexpr std::size_t most_pairs = 15000;   // beyond, looking at every split is quicker
  static constexpr std::size_t most_meeting = 40000; // where a pair is looked at but briefly
  static constexpr std::size_t few_pieces = 170;     // of which all pairs may be looked at
  static constexpr int least_paired = 8;             // ranks of a part

  /// A split by what it has at least: the terms of both parts themselves, and all ranks' shares.
  struct Split {
    double bound;
    RankSet right;
  };

  /// Whether the parts may exchange their ranks: they differ in nothing but which of them has the
  /// terms of the links between them, and these do not tell directions apart.
  [[nodiscard]] bool same_either_way() const {
    const Stage &left = values_.stages()[root_.left];
    const Stage &right = values_.stages()[root_.right];
    const auto undirected = [](const Stage &stage) {
      return std::all_of(stage.terms.begin(), stage.terms.end(),
                         [](const CutTerm &term) { return term.out == term.in; });
    };
    return left.size == right.size && left.parts == right.parts && !left.parts.empty() &&
           left.nodes == 1 && right.nodes == 1 && !left.has_pins && undirected(left) &&
           undirected(right);
  }

  void list_splits() {
    const SetBound<Join> &left_bound = values_.bound_below(root_.left);
    const SetBound<Join> &right_bound = values_.bound_below(root_.right);
    const Stage &left_stage = values_.stages()[root_.left];
    const Stage &right_stage = values_.stages()[root_.right];
    const double hopeless = above(best_.value);
    const SubsetSpread spread(all_);
    const int right_size = right_stage.size;
    const auto &patterns =
        subset_patterns(root_.size, right_size, root_.symmetric || same_either_way());
    splits_.reserve(patterns.size());
    for (const std::uint16_t pattern : patterns) {
      const RankSet right = spread(pattern);
      if (values_.silent().any() && !values_.silent().lowest_of(right, all_))
        continue;
      const RankSet left = all_ ^ right;
      double bound = Join::join(left_bound(left), right_bound(right));
      if (!(bound < hopeless))
        continue;
      const Crossing leaving = values_.crossing(left);
      bound = Join::join(bound, values_.own_terms(left_stage, leaving, left));
      bound = Join::join(
          bound, values_.own_terms(right_stage, {.out = leaving.in, .in = leaving.out}, right));
      if (!(bound < hopeless))
        continue;
      least_ = std::min(least_, bound);
      splits_.push_back({bound, right});
    }
  }

  [[nodiscard]] bool settled() const { return Join::settles(best_.value, least_); }

  // --- every split ---------------------------------------------------------------------------

  void scan() {
    if (splits_.size() <= few_splits)
      std::sort(splits_.begin(), splits_.end(), [](const Split &a, const Split &b) {
        return a.bound != b.bound ? a.bound < b.bound : a.right < b.right;
      });
    for (const Split &split : splits_) {
      if (settled())
        break;
      if (split.bound < above(best_.value))
        look_at(all_ ^ split.right, split.right);
    }
  }

  void look_at(RankSet left, RankSet right) {
    const Crossing leaving = values_.crossing(left);
    const double left_own = values_.own_terms(values_.stages()[root_.left], leaving, left);
    const double right_own = values_.own_terms(values_.stages()[root_.right],
                                               {.out = leaving.in, .in = leaving.out}, right);
    const double right_least = Join::join(values_.bound_below(root_.right)(right), right_own);
    const double left_value =
        values_.value(root_.left, left, above(Join::room(best_.value, right_least)), left_own);
    take_if_better(left_value, root_.right, right, right_own, right);
  }

  /// With one part's value known.
  void take_if_better(double known, int other, RankSet rest, double rest_own, RankSet right) {
    if (!(known < best_.value))
      return;
    const double room = above(Join::room(best_.value, known));
    const double whole = Join::join(known, values_.value(other, rest, room, rest_own));
    if (whole < best_.value)
      best_ = {whole, right};
  }

  // --- from pairs of what is below the parts -----------------------------------------------------

  /// A set of ranks and what it costs beyond the shares of its members.
  struct Piece {
    double over;
    RankSet set;
  };

  /// One part of the root, as pieces to join.
  struct Paired {
    int number;
    std::vector<Piece> first;
    std::vector<Piece> second; // unused if `alike`
    bool alike;                // both halves are of one stage
    bool whole = true;         // all that a better split may have, not only its cheaper part

    [[nodiscard]] std::size_t pieces() const { return first.size() + second.size(); }
  };

  double all_room() const {
    return above(Join::adds ? Join::room(best_.value, least_) : best_.value);
  }
  double room() const { return Join::adds ? 0.5 * all_room() : all_room(); }

  bool from_pairs() {
    if (!can_pair(root_.left) || !can_pair(root_.right))
      return false;
    const bool alike = root_.left == root_.right || same_either_way();
    std::vector<Paired> parts{paired(root_.left)};
    if (alike && parts[0].alike && pairs_meet(parts[0]))
      return true;
    if (!alike)
      parts.push_back(paired(root_.right));
    if (!Join::adds && parts.size() == 2) // either will do
      parts.erase(parts.begin() + (parts[0].pieces() < parts[1].pieces() ? 1 : 0));
    return std::all_of(parts.begin(), parts.end(),
                       [this](const Paired &part) { return join_pairs(part); });
  }

  /// Both parts look alike, and every pair of pieces is a set for either: best is where two sets
  /// make up all ranks. A maximum is found as soon as its largest piece comes by. False if there
  /// are too many pairs; for a sum, all that have room must have been seen.
  bool pairs_meet(const Paired &part) {
    const std::vector<Piece> &pieces = part.first;
    if (!part.whole)
      return false;
    const auto &numbers = set_numbers();
    std::vector<double> known(values_.stages()[part.number].table.size(), unlimited);
    for (std::size_t i = 0; i < pieces.size() && pieces[i].over < above(best_.value); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if ((pieces[i].set & pieces[j].set) != 0)
          continue;
        const RankSet set = pieces[i].set | pieces[j].set;
        const double over = Join::join(pieces[i].over, pieces[j].over);
        double &least = known[numbers[set]];
        if (!(over < std::min(least, all_room())))
          continue;
        least = over;
        const double rest_over = known[numbers[all_ ^ set]];
        if (rest_over < unlimited)
          meet(part.number, set, over, rest_over);
      }
      if (!Join::adds) {
        pairs_ += i;
        if (pairs_ > most_meeting)
          return false;
      }
    }
    return true;
  }

  void meet(int number, RankSet set, double over, double rest_over) {
    const RankSet rest = all_ ^ set;
    const int other = number == root_.left ? root_.right : root_.left;
    const Crossing leaving = values_.crossing(set);
    const double own = values_.own_terms(values_.stages()[number], leaving, set);
    const double rest_own =
        values_.own_terms(values_.stages()[other], {.out = leaving.in, .in = leaving.out}, rest);
    const double whole = Join::join(Join::join(with_shares(number, set, over), own),
                                    Join::join(with_shares(other, rest, rest_over), rest_own));
    if (whole < best_.value)
      best_ = {whole, number == root_.left ? rest : set};
  }

  double with_shares(int number, RankSet set, double over) {
    return Join::adds ? over + values_.bound_below(number)(set) : over;
  }

  bool can_pair(int number) {
    const Stage &stage = values_.stages()[number];
    return stage.nodes == 1 && stage.left >= 0 && stage.size >= least_paired &&
           values_.complete(stage.left) && values_.complete(stage.right);
  }

  Paired paired(int number) {
    const Stage &stage = values_.stages()[number];
    Paired part{number, pieces(stage.left, number), {}, stage.left == stage.right};
    if (!part.alike)
      part.second = pieces(stage.right, number);
    if (Join::adds && part.pieces() > few_pieces) {
      const auto too_much = [this](const Piece &each) { return !(each.over < room()); };
      std::erase_if(part.first, too_much);
      std::erase_if(part.second, too_much);
      part.whole = false;
    }
    by_over(part.first);
    by_over(part.second);
    return part;
  }

  std::vector<Piece> pieces(int below, int number) const {
    std::vector<Piece> found;
    const Stage &stage = values_.stages()[below];
    const SetBound<Join> &shares = values_.bound_below(number);
    const double most = all_room();
    std::size_t place = 0;
    for_each_set(values_.ranks(), stage.size, [&](RankSet set) {
      const double value = stage.table[place++];
      const double over = Join::adds ? value - shares(set) : value;
      if (over < most)
        found.push_back({over, set});
    });
    return found;
  }

  static void by_over(std::vector<Piece> &pieces) {
    std::sort(pieces.begin(), pieces.end(), [](const Piece &a, const Piece &b) {
      return a.over != b.over ? a.over < b.over : a.set < b.set;
    });
  }

  /// False if there are too many.
  bool join_pairs(const Paired &part) {
    const std::vector<Piece> &others = part.alike ? part.first : part.second;
    for (std::size_t i = 0; i < part.first.size() && !settled(); ++i) {
      const Piece &piece = part.first[i];
      for (std::size_t j = 0; j < (part.alike ? i : others.size()); ++j) {
        const double over = Join::join(piece.over, others[j].over);
        if (!(over < room()))
          break;
        if (++pairs_ > most_pairs)
          return false;
        if ((piece.set & others[j].set) == 0)
          enter(part.number, piece.set | others[j].set, over);
      }
    }
    return true;
  }

  /// A set that one part can have with so much beyond shares, without its own terms.
  void enter(int number, RankSet set, double over) {
    const bool left = number == root_.left;
    const int other = left ? root_.right : root_.left;
    const RankSet rest = all_ ^ set;
    const Crossing leaving = values_.crossing(set);
    const double own = values_.own_terms(values_.stages()[number], leaving, set);
    const double rest_own =
        values_.own_terms(values_.stages()[other], {.out = leaving.in, .in = leaving.out}, rest);
    // Perhaps not the best that this set can have, but the best of its pairs comes by too.
    const double here = Join::join(with_shares(number, set, over), own);
    const double rest_least = Join::join(values_.bound_below(other)(rest), rest_own);
    if (Join::join(here, rest_least) < above(best_.value))
      take_if_better(here, other, rest, rest_own, left ? rest : set);
  }

  TreeValues<Join> &values_;
  const Stage &root_;
  RankSet all_;
  Answer best_{unlimited, 0};
  double least_ = unlimited; // no split has less
  std::vector<Split> splits_;
  std::size_t pairs_ = 0;
};

} // namespace toposeat
