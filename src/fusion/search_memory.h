// What a search for a plan found out that holds for other plans of the same graph.
//
// A graph whose sizes are free is planned several times (plan_versions.h), for tasks that have ever
// more rows. Nearly all that a search finds out has nothing to do with that: by how much a pair of
// kernels can be better, and how it is cut best. Where rows were compared on the way, the finding
// says for which numbers of them it holds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fusion/merging.h"
#include "fusion/node_key.h"
#include "fusion/structure.h"

namespace opweld {

// Numbers of rows that tasks are granted (PlanOptions::rows_granted) for which some comparisons
// come out as they did.
class GrantedRows {
 public:
  void compared(std::int64_t least, bool is_granted) {
    if (is_granted) {
      from_ = std::max(from_, least);
    } else {
      below_ = std::min(below_, least);
    }
  }
  [[nodiscard]] bool contains(double rows) const {
    return rows >= static_cast<double>(from_) &&
           (below_ == kAny || rows < static_cast<double>(below_));
  }
  // The fewest that were asked for and not granted; absent: all were.
  [[nodiscard]] std::optional<std::int64_t> fewest_refused() const {
    return below_ == kAny ? std::nullopt : std::optional(below_);
  }

 private:
  static constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  std::int64_t from_ = 0;
  std::int64_t below_ = kAny;
};

struct SearchMemory {
  // Which edges of two kernels are kept apart, by the places of their ends among the nodes, and how
  // schedules were asked: the same for all pairs that are alike.
  struct Cut {
    std::vector<std::pair<std::int32_t, std::int32_t>> apart;
    Merging::Asking asking = Merging::Asking::Always;
  };

  // What became of a pair.
  struct Outcome {
    std::optional<Cut> cut;  // that was best; absent: none was better
    std::int64_t questions = 0;
    GrantedRows rows;
  };

  // What is known of a pair before it is taken apart.
  struct Prospect {
    double gain = 0;             // in seconds, at the most
    std::int64_t questions = 0;  // that it takes, about
    std::size_t likeness = 0;    // equal for pairs that are alike, where there is something to gain
  };

  Structures structures;
  std::unordered_map<NodeKey, Prospect, NodeKeyHash> prospects;  // by both kernels and the edge
  std::unordered_map<Structures::Key, std::size_t, StructureHash> likenesses;
  std::vector<std::vector<Outcome>> outcomes;  // by likeness
  GrantedRows* comparing = nullptr;            // is told what is compared while it is set
};

}  // namespace opweld
