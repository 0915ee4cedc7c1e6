// What groups cost as kernels of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "fusion/groups.h"
#include "fusion/node_key.h"
#include "fusion/planner.h"

namespace opweld {

// By the kernel model, with unknown sizes at their nominal ones; infinite where no schedule serves
// the group.
struct GroupCost {
  double seconds = 0;
  double moving_seconds = 0;  // of those, for moving bytes and launching
};
GroupCost group_cost(const Group& group, const PlanOptions& options);

GroupCost group_cost(const Kernel& kernel, const PlanOptions& options);

// What is known of moving_seconds before any schedule is asked: no more than those.
double least_moving_seconds(const Group& group, const PlanOptions& options);
double least_moving_seconds(const Kernel& kernel, const PlanOptions& options);

// Whether a schedule serves the group, and no rule speaks against its kernel whatever it was made
// of: it fits on the chip, and where it is a chain, that pays.
bool may_be_made(const Group& group, const PlanOptions& options);
bool may_be_made(const Kernel& kernel, const PlanOptions& options);

// The same, found out once for each group. Cuts of a region, and regions that have a kernel in
// common, come to the same groups again and again.
class GroupCosts {
 public:
  explicit GroupCosts(const PlanOptions& options) : options_(options) {}

  GroupCost cost(const Group& group);
  double least_moving_seconds(const Group& group);
  bool may_be_made(const Group& group);

 private:
  struct Known {
    std::optional<GroupCost> cost;
    std::optional<double> least_moving_seconds;
    std::optional<bool> may_be_made;
  };
  Known& known(const Group& group);

  const PlanOptions& options_;
  std::unordered_map<NodeKey, Known, NodeKeyHash> known_;  // by the kind and the nodes
};

}  // namespace opweld
