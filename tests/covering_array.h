// Every two of anything: choices of one level for each factor, such that each two levels of two
// factors that go together meet in one of the choices.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <utility>
#include <vector>

namespace opweld::testing {

// Level `level` of factor `factor`.
struct Level {
  int factor;
  int level;
  auto operator<=>(const Level&) const = default;
};

// Whether two levels, the one of the lower factor first, cannot go together.
using Excludes = std::function<bool(Level first, Level second)>;

// Level 0 of each factor has to go with whatever the exclusions let meet.
template <std::size_t kFactors>
class CoveringArray {
 public:
  using Choice = std::array<int, kFactors>;

  // Factor f has levels 0 to levels[f] - 1.
  explicit CoveringArray(const Choice& levels, Excludes excludes = {})
      : levels_(levels), excludes_(std::move(excludes)) {
    for (int first = 0; first < count(); ++first) {
      for (int second = first + 1; second < count(); ++second) {
        for (int a = 0; a < levels_[at(first)]; ++a) {
          for (int b = 0; b < levels_[at(second)]; ++b) {
            if (!excluded({first, a}, {second, b})) missing_.insert({{first, a}, {second, b}});
          }
        }
      }
    }
  }

  [[nodiscard]] std::vector<Choice> choices() {
    std::vector<Choice> choices;
    while (!missing_.empty()) {
      const auto pair = *missing_.begin();
      const Choice choice = choice_for(pair);
      std::erase_if(missing_, [&](const Pair& each) {
        return choice[at(each.first.factor)] == each.first.level &&
               choice[at(each.second.factor)] == each.second.level;
      });
      if (missing_.contains(pair)) {
        ADD_FAILURE() << "nothing goes with level " << pair.first.level << " of factor "
                      << pair.first.factor << " and level " << pair.second.level << " of factor "
                      << pair.second.factor;
        return choices;
      }
      choices.push_back(choice);
    }
    return choices;
  }

 private:
  using Pair = std::pair<Level, Level>;
  static constexpr int kOpen = -1;

  static constexpr int count() { return static_cast<int>(kFactors); }
  static constexpr std::size_t at(int factor) { return static_cast<std::size_t>(factor); }

  [[nodiscard]] bool excluded(Level a, Level b) const {
    return excludes_ && (a.factor < b.factor ? excludes_(a, b) : excludes_(b, a));
  }

  // How many of the missing pairs a choice would have if this level were chosen; -1 where it
  // cannot be.
  int gained(const Choice& choice, Level level) const {
    int gain = 0;
    for (int other = 0; other < count(); ++other) {
      if (other == level.factor || choice[at(other)] == kOpen) continue;
      const Level chosen{other, choice[at(other)]};
      if (excluded(level, chosen)) return -1;
      const Pair pair = other < level.factor ? Pair{chosen, level} : Pair{level, chosen};
      if (missing_.contains(pair)) ++gain;
    }
    return gain;
  }

  // Has that pair, and many others.
  Choice choice_for(const Pair& pair) const {
    Choice choice;
    choice.fill(kOpen);
    choice[at(pair.first.factor)] = pair.first.level;
    choice[at(pair.second.factor)] = pair.second.level;
    for (int factor = 0; factor < count(); ++factor) {
      if (choice[at(factor)] != kOpen) continue;
      int most = -1;
      for (int level = 0; level < levels_[at(factor)]; ++level) {
        const int gain = gained(choice, {factor, level});
        if (gain <= most) continue;
        most = gain;
        choice[at(factor)] = level;
      }
      if (most < 0) return {kOpen};
    }
    return choice;
  }

  Choice levels_;
  Excludes excludes_;
  std::set<Pair> missing_;
};

}  // namespace opweld::testing
